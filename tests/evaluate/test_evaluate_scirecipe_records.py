"""Records of SciRecipe: libraries of actions, the rules of the data set, and `assay check`."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from assay.service.cli.main import main
from assay.service.records.fields import prompt_of
from assay.service.tasks.scirecipe_records import level_of, library_of, violations

ADD = '{"action": "add", "objects": ["pbs"], "parameters": ["5 ml"]}'
SPIN = '{"action": "spin", "objects": ["tube"], "parameters": []}'
RECORD = {
    "id": "one",
    "question": "How?",
    "think": "t",
    "key": f"Step 1: {ADD}\nStep 2: {SPIN}",
    "orc": "Step 1: Add 5 ml of pbs.\nStep 2: Spin the tube.",
    "note": "n",
    "type": "planning",
    "level": 1,
    "action": ["add", "spin"],
    "action_new": ["shake", "add", "spin"],
}
ANSWER = "<think>t</think>\n\n<key>\n{key}\n</key>\n\n<orc>\n{orc}\n</orc>\n\n<note>\nn\n</note>"


def rules(**changes) -> list[str]:
    return [violation.rule for violation in violations({**RECORD, **changes})]


@pytest.mark.parametrize("steps", range(1, 9))
def test_levels(steps):
    assert level_of(steps) == (1 if steps < 4 else 2)


def test_libraries():
    assert library_of(RECORD) == ("shake", "add", "spin")
    assert library_of({"action": ["add", " ", "add", 5, " mix "]}) == ("add", "mix")
    prompt = 'Use pbs. Please note that you can only use the following actions: "add", "spin the tube","mix".'
    for name in ("query", "question", "prompt"):
        assert library_of({name: prompt}) == ("add", "spin the tube", "mix")
    assert library_of({"query": f'{prompt} Or: You can ONLY use the following actions: "heat".'}) == ("heat",)
    assert library_of({"actions_prompt_tail": '"add", "spin".'}) == ("add", "spin")
    assert library_of({"query": "How?", "action": "add"}) is None
    assert library_of({}) is None


def test_right_answers_keep_the_rules(gold_records):
    assert [violations(record) for record in gold_records] == [[]] * len(gold_records)
    assert [library_of(record) for record in gold_records] == [
        tuple(re.findall(r'"action": "([^"]+)"', record["reference"])) if k % 3 else None
        for k, record in enumerate(gold_records)
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"think": " "}, ["missing_section"]),
        ({"note": None, "think": 5}, ["missing_section", "missing_section"]),
        ({"key": f"Step 1: {ADD}\nStep 3: {SPIN}"}, ["key_numbering"]),
        ({"key": f"Step 1: {ADD}\nand then\nStep 2: {SPIN}"}, ["key_line"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {{'a'}}"}, ["key_json"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {SPIN.replace('objects', 'object')}"}, ["names"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {SPIN.replace('tube', 'Tube')}"}, ["lower_case"]),
        ({"key": f"Step 1: {ADD.replace('add', 'Add')}\nStep 2: {SPIN}"}, ["lower_case"]),
        ({"key": f"Step 1: {ADD.replace('5 ml', '5 ML')}\nStep 2: {SPIN}"}, ["lower_case"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {SPIN.replace('[]', '[1]')}"}, ["elements"]),
        (
            {"key": f"Step 1: {ADD.replace('add', ' ')}\nStep 2: {SPIN}", "action_new": ["", "spin"]},
            ["action", "library"],
        ),
        ({"orc": "Step 1: Add 5 ml of pbs."}, ["step_count"]),
        ({"orc": "Step 1: Add.\nStep 1: Spin."}, ["orc_numbering"]),
        ({"orc": "Add, then spin."}, ["orc_line", "step_count"]),
        ({"action_new": ["add"]}, ["library"]),
        ({"level": 2}, ["level"]),
        ({"level": "Level 1"}, []),
        ({"type": "baking"}, ["type"]),
        ({"type": "Overview_QA"}, []),
        ({"type": ["planning"], "level": None}, ["type"]),
    ],
)
def test_rules(changes, expected):
    assert rules(**changes) == expected


def test_whole_answers_are_held_to_the_same_rules():
    answer = ANSWER.format(key=RECORD["key"], orc=RECORD["orc"])
    assert violations({"reference": answer, "query": "How?"}) == []
    broken = answer.replace("Step 2: Spin", "Step 3: Spin").replace('["tube"]', '["Tube"]')
    assert [v.rule for v in violations({"reference": broken})] == ["lower_case", "orc_numbering"]
    assert [v.rule for v in violations({"reference": RECORD["key"]})] == ["missing_section"] * 3


def test_nothing_is_quoted():
    secret = "Quelle"
    for changes in (
        {"key": f"{secret}\nStep 1: {{{secret}"},
        {"type": secret, "level": secret, "action_new": [secret]},
    ):
        assert secret not in str(violations({**RECORD, **changes}))


def check(tmp_path, rows, *flags):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    result = CliRunner().invoke(main, ["check", str(path), *flags])
    return result.exit_code, [line.removeprefix(f"{path}:") for line in result.stdout.splitlines()]


def test_check_holds_published_records_to_the_rules(tmp_path):
    rows = [RECORD, {**RECORD, "type": "baking", "level": 2}, {"reference": RECORD["key"]}, {"key": "Step 1: {}"}]
    assert check(tmp_path, rows) == (
        1,
        [
            "2: warning: the level of 2 steps must be 1 (level)",
            "2: warning: the type is not one of the data set's (type)",
            "4: error: reference: line 1: missing fields action, objects, parameters (bad_step_schema)",
        ],
    )
    assert check(tmp_path, rows[:3], "--no-scirecipe") == (0, [])
    code, lines = check(tmp_path, rows[2:3], "--scirecipe")
    assert code == 0
    assert [line.partition("(")[2] for line in lines] == ["missing_section)"] * 3


def test_check_finds_references_that_their_library_forbids(tmp_path):
    query = 'How? Please note that you can only use the following actions: "add".'
    assert check(tmp_path, [{"query": query, "reference": RECORD["key"]}]) == (
        0,
        ["1: warning: 1 actions of <key> are not in the record's library of actions (library)"],
    )


def test_check_looks_at_answers(tmp_path):
    answer = ANSWER.format(
        key=f"{RECORD['key']}\nStep 3: {ADD.replace('add', 'shake')}\nStep 4: {SPIN.replace('spin', 'eat')}", orc=""
    )
    rows = [{**RECORD, "output": answer}, {**RECORD, "output": ANSWER.format(key=RECORD["key"], orc="")}, RECORD]
    assert check(tmp_path, rows, "--response-field", "output") == (
        0,
        [
            "1: warning: the answer uses 1 actions that are not in the row's library (outside_library)",
            "1: warning: the answer uses 1 actions of the library that the reference does not (distractors)",
        ],
    )


def test_a_prompt_may_be_chat_messages() -> None:
    question = 'How? You can only use the following actions: "add", "spin".'
    record = {
        "prompt": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}, "no message"]
    }
    assert prompt_of(record) == f"Be brief.\n{question}"
    assert library_of(record) == ("add", "spin")
    assert prompt_of({"prompt": " ", "query": "Why?", "question": "How?"}) == "Why?"
    assert prompt_of({"actions_prompt_tail": '"add"'}) == ""

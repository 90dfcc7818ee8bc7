"""Records of SciRecipe: libraries of actions, the rules of the data set, and `assay check`."""

from __future__ import annotations

import re

import pytest

from assay.service.records.rows.fields import prompt_of
from assay.service.tasks.scirecipe_records import level_of, library_of, violations
from tests.command_line import write_rows

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
REPEATED = {
    "key": "\n".join(f"Step {number}: {ADD}" for number in range(1, 5)),
    "orc": "\n".join(f"Step {number}: Add 5 ml of pbs." for number in range(1, 5)),
}
"""Four steps with one action: the paper's level 1, and level 2 by steps."""
ANSWER = "<think>t</think>\n\n<key>\n{key}\n</key>\n\n<orc>\n{orc}\n</orc>\n\n<note>\nn\n</note>"


def rules(**changes) -> list[str]:
    return [violation.rule for violation in violations({**RECORD, **changes})]


def test_levels_and_libraries():
    assert [level_of(steps) for steps in range(1, 9)] == [1] * 3 + [2] * 5
    assert library_of(RECORD) == ("shake", "add", "spin")
    assert library_of({"action": ["add", " ", "add", 5, " mix "]}) == ("add", "mix")
    prompt = 'Use pbs. Please note that you can only use the following actions: "add", "spin the tube","mix".'
    for name in ("query", "question", "prompt"):
        assert library_of({name: prompt}) == ("add", "spin the tube", "mix")
    assert library_of({"query": f'{prompt} Or: You can ONLY use the following actions: "heat".'}) == ("heat",)
    assert library_of({"actions_prompt_tail": '"add", "spin".'}) == ("add", "spin")
    assert library_of({"query": "How?", "action": "add"}) is None
    assert library_of({}) is None
    asked = {"role": "user", "content": 'How? You can only use the following actions: "add", "spin".'}
    record = {"prompt": [{"role": "system", "content": "Be brief."}, asked, "no message"]}
    assert prompt_of(record) == f"Be brief.\n{asked['content']}"
    assert library_of(record) == ("add", "spin")
    assert prompt_of({"prompt": " ", "query": "Why?", "question": "How?"}) == "Why?"
    assert prompt_of({"actions_prompt_tail": '"add"'}) == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"think": " "}, ["missing_section"]),
        ({"note": None, "think": 5}, ["missing_section", "missing_section"]),
        ({"key": f"Step 1: {ADD}\nStep 3: {SPIN}"}, ["key_numbering"]),
        ({"key": f"Step 1: {ADD}\nand then\nStep 2: {SPIN}"}, ["key_line"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {{'a'}}"}, ["key_json"]),
        ({"key": f"and then\nStep 1: {{'a'}}\nStep 3: {SPIN}"}, ["key_line", "key_json", "key_numbering"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {SPIN.replace('objects', 'object')}"}, ["names"]),
        ({"key": f"Step 1: {ADD}\nStep 2: {SPIN.replace('tube', 'Tube')}"}, ["lower_case"]),
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
        ({**REPEATED, "level": 1}, []),
        ({**REPEATED, "level": 2}, []),
        ({**REPEATED, "level": 3}, ["level"]),
        ({"type": "baking"}, ["type"]),
        ({"type": "Overview_QA"}, []),
        ({"type": ["planning"], "level": None}, ["type"]),
    ],
)
def test_rules(changes, expected):
    assert rules(**changes) == expected


def test_check_holds_records_and_answers_to_the_rules(call, tmp_path):
    def check(rows, *flags):
        path = write_rows(tmp_path / "rows.jsonl", rows)
        result = call("check", path, *flags)
        matches = [
            re.fullmatch(r"(\d+): (\w+): .*\((\w+)\)", line.removeprefix(f"{path}:"))
            for line in result.stdout.splitlines()
        ]
        return result.exit_code, [(int(match[1]), match[2], match[3]) for match in matches]

    rows = [RECORD, {**RECORD, "type": "baking", "level": 2}, {"reference": RECORD["key"]}, {"key": "Step 1: {}"}]
    warnings = [(2, "warning", "level"), (2, "warning", "type")]
    assert check(rows) == (1, [*warnings, (4, "error", "bad_step_schema")])
    assert check(rows[:3], "--no-scirecipe") == (0, [])
    assert check(rows[2:3], "--scirecipe") == (0, [(1, "warning", "missing_section")] * 3)
    query = 'How? Please note that you can only use the following actions: "add".'
    assert check([{"query": query, "reference": RECORD["key"]}]) == (0, [(1, "warning", "library")])
    more = f"{RECORD['key']}\nStep 3: {ADD.replace('add', 'shake')}\nStep 4: {SPIN.replace('spin', 'eat')}"
    rows = [{**RECORD, "output": ANSWER.format(key=key, orc="")} for key in (more, RECORD["key"])]
    expected = [(1, "warning", name) for name in ("outside_library", "distractors")]
    assert check([*rows, RECORD], "--response-field", "output") == (0, expected)

"""Every command reads every form of records, in files of every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from assay.service.records.rows.forms import PROMPTS, SUPERVISED, PromptRow, json_text
from tests.command_line import read_rows, write_rows
from tests.files.any_format import write
from tests.prepare.published import ANSWER, CHAT, EVAL, KEY, ORD, PQA, QUESTION, SFT, STEPS, TRAIN

MESSAGES = [{"role": "user", "content": QUESTION}]
ABOUT = {"group": "g", "level": "1", "type": "planning", "split": "train"}
ANSWERED = {"response": ANSWER}


def prepared(trainer: str, task: str, reference: str) -> dict[str, Any]:
    """Return the row that `assay prepare` writes for a trainer."""
    return PROMPTS[trainer](PromptRow(MESSAGES, reference, ABOUT, {"id": "a", "task": task}))


FORMS: dict[str, Any] = {
    "plain": {"prompt": QUESTION, "reference": KEY, **ANSWERED},
    "usual names": {"question": QUESTION, "ground_truth": KEY, "prediction": ANSWER},
    "steps": {"prompt": QUESTION, "reference": {"steps": STEPS}, **ANSWERED},
    "scirecipe": {**TRAIN, **ANSWERED},
    "scirecipe eval": {**EVAL, "level": "1", **ANSWERED},
    "answer in messages": {**CHAT, "reference": KEY},
    "answer in conversations": {**SFT, "reference": KEY},
    "reference in messages": {**CHAT, **ANSWERED},
    "reference in conversations": {**SFT, "generated_response": ANSWER},
    "completion": {"prompt": MESSAGES, "completion": [{"role": "assistant", "content": ANSWER}], "reference": KEY},
    **{f"rows of {trainer}": {**prepared(trainer, "score", KEY), **ANSWERED} for trainer in PROMPTS},
    **{f"answers of {trainer}": {**make(MESSAGES, ANSWER), **ANSWERED} for trainer, make in SUPERVISED.items()},
}


@pytest.fixture(params=["jsonl", "parquet"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"in.{request.param}"


def reward_of_score(call, source: Path, *flags: str) -> float:
    """Return the reward of the one row of a file, and leave the row in `scored.jsonl`."""
    assert call("score", source, "-o", source.with_name("scored.jsonl"), *flags).exit_code == 0
    (row,) = read_rows(source.with_name("scored.jsonl"))
    reward: float = row["reward"]
    return reward


def test_score_reads_every_form(call, source: Path) -> None:
    """A perfect response to a reference of two steps."""
    for form, row in FORMS.items():
        assert reward_of_score(call, write(source, [row]), "--include", "components") == 1.0, form
        assert call("select", source.with_name("scored.jsonl"), "--best", "--trainer", "trl").exit_code == 0, form


def read_by_others(call, source: Path) -> None:
    document = source.with_name("document.json")
    assert json.loads(call("explain", source, "--json").stdout)["reward"] == 1.0
    assert call("evaluate", source, "--json", document).exit_code == 0
    assert json.loads(document.read_bytes())["aggregate"]["step_m"] == 1.0
    assert call("check", source).stderr.endswith("1 checked, 0 invalid, 0 with a warning\n")
    assert call("ablate", source, "--grid", "table22", "--json", document).exit_code == 0
    assert json.loads(document.read_bytes())["configs"][0]["mean_reward"] == 1.0


@pytest.mark.parametrize("form", ["scirecipe eval", "reference in messages", "rows of verl"])
def test_other_commands_read_forms_as_score_does(call, source: Path, form: str) -> None:
    read_by_others(call, write(source, [FORMS[form]]))
    made = source.with_name("prepared")
    assert call("prepare", source, "-o", made, "--similarity", "1", "--test", "0").exit_code == 0
    (row,) = read_rows(made / "train.jsonl")
    assert [json.loads(line.partition(": ")[2]) for line in row["reference"].splitlines()] == STEPS


@pytest.mark.parametrize(
    "document",
    [
        {"records": [{"response": ANSWER, "reference": KEY}]},
        [{"response": ANSWER, "reference": KEY}],
        {"response": ANSWER, "reference": KEY},
    ],
    ids=["records", "array", "row"],
)
def test_every_command_reads_a_document(call, tmp_path: Path, document: Any) -> None:
    source = write(tmp_path / "in.json", document)
    assert reward_of_score(call, source) == 1.0
    read_by_others(call, source)


def test_every_command_reads_a_request(call, tmp_path: Path) -> None:
    source = write(tmp_path / "in.json", {"responses": [ANSWER], "references": [KEY]})
    assert json.loads(call("score", source, "--output-format", "json").stdout)["rewards"] == [1.0]
    assert json.loads(call("explain", source, "--json").stdout)["reward"] == 1.0
    assert [call(name, source).exit_code for name in ("evaluate", "check", "ablate")] == [0, 0, 0]


OTHERS = {
    "bioprobench.pqa": (PQA, {"answer": "100"}, "[ANSWER_START]100 & 90[ANSWER_END]", "accuracy"),
    "bioprobench.ord": (
        ORD,
        {name: ORD[name] for name in ("wrong_steps", "correct_steps")},
        "[ANSWER_START][1, 2, 0][ANSWER_END]",
        "exact_match",
    ),
}


@pytest.mark.parametrize("task", OTHERS)
@pytest.mark.parametrize("form", ["published", *PROMPTS])
def test_rows_of_other_tasks_are_read(call, source: Path, task: str, form: str) -> None:
    published, reference, response, metric = OTHERS[task]
    row = published if form == "published" else prepared(form, task, json_text(reference))
    write(source, [{**row, "generated_response": response}])
    assert reward_of_score(call, source, "--task", task) == 1.0
    document, made = source.with_name("document.json"), source.with_name("prepared")
    assert call("evaluate", source, "--task", task, "--json", document).exit_code == 0
    assert json.loads(document.read_bytes())["aggregate"][metric] == 1.0
    assert call("check", source, "--task", task).stderr.endswith("1 checked, 0 invalid, 0 with a warning\n")
    if form != "published":
        assert [call(name, source, "--task-field", "task").exit_code for name in ("check", "ablate")] == [0, 0]
    assert call("prepare", source, "-o", made, "--similarity", "1", "--test", "0").exit_code == 0
    (example,) = read_rows(made / "train.jsonl")
    assert (example["task"], example["reference"]) == (task, json_text(reference))


def test_flags_name_the_fields_for_every_command(call, tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{"input": QUESTION, "output": ANSWER, "gts": KEY}])
    for name in ("score", "explain", "evaluate", "check", "ablate"):
        named = ["--reference-field", "gts", "--response-field", "output"]
        assert call(name, source, *named).exit_code == 0
        assert call(name, source, "--layout", "verl").exit_code == 0
    scored = tmp_path / "scored.jsonl"
    call("score", source, "--layout", "verl", "-o", scored)
    assert call("select", scored, "--best", "--layout", "verl").exit_code == 0

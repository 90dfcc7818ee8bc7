"""`assay score --task`: every row of a file is of one other task."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer
from assay.service.rewards.registry import TASK_COMPONENTS
from tests.command_line import write_rows

pytest.importorskip("pyarrow")

from tests.files.any_format import FORMATS, read, write

PQA = ("--task", "bioprobench.pqa")
QUESTIONS = [
    {"id": 1, "answer": "5 ml", "generated_response": "[ANSWER_START]5 ml & 80[ANSWER_END]"},
    {"id": 2, "answer": "5 ml", "generated_response": "[ANSWER_START]6 ml & 80[ANSWER_END]"},
    {"id": 3, "answer": "7 ml", "generated_response": "I do not know"},
]
BOTH = ("--include", "components,advantages")


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("own_references", [False, True])
def test_records_and_references(call, tmp_path: Path, source: str, own_references: bool) -> None:
    rows: list[dict[str, Any]] = QUESTIONS
    if own_references:
        rows = [{"response": row["generated_response"], "reference": row["answer"]} for row in QUESTIONS]
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / f"out.{source}"
    result = call("score", path, "-o", target, *PQA, *BOTH)
    assert result.exit_code == 0, result.stderr
    found = read(target, TASK_COMPONENTS)
    texts, answers = ([row[name] for row in QUESTIONS] for name in ("generated_response", "answer"))
    scores = Scorer().score(texts, answers, [0, 0, 2], task="bioprobench.pqa")
    assert [row["reward"] for row in found] == scores.rewards.tolist() == [1.0, 0.0, 0.0]
    assert [row["reason"] for row in found] == ["ok", "ok", "no_markers"]
    assert [row["advantage"] for row in found] == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0.0])
    columns = {name: [row["components"][name] for row in found] for name in TASK_COMPONENTS}
    assert columns == {name: column.tolist() for name, column in scores.components.items()}
    added = {"reward", "reason", "components", "advantage"}
    assert [{name: value for name, value in row.items() if name not in added} for row in found] == rows


def test_a_truth_that_is_a_column_of_booleans(call, tmp_path: Path) -> None:
    rows = [{"reference": truth, "response": "[ANSWER_START]True[ANSWER_END]"} for truth in (True, False)]
    path, target = write(tmp_path / "in.parquet", rows), tmp_path / "out.jsonl"
    assert call("score", path, "-o", target, "--task", "bioprobench.err").exit_code == 0
    assert [row["reward"] for row in read(target)] == [1.0, 0.0]


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_faults(call, tmp_path: Path, source: str) -> None:
    rows = [*QUESTIONS, {"answer": "x"}, {"generated_response": "x"}]
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / "out.jsonl"
    result = call("score", path, "-o", target, *PQA)
    assert result.exit_code == 1
    found = read(target)
    absent = "missing_field" if source == "jsonl" else "not_a_string"  # a column has null for a missing value
    assert [row.get("reward") for row in found] == [1.0, 0.0, 0.0, None, None]
    assert [row["error"]["reason"] for row in found[3:]] == [absent, "bad_reference"]
    for row in found[3:]:
        assert f"{row['error']['detail']} ({row['error']['reason']})" in result.stderr


def test_options(call, tmp_path: Path) -> None:
    path, target = write_rows(tmp_path / "in.jsonl", QUESTIONS), tmp_path / "out.jsonl"
    assert call("score", path, "-o", target, *PQA, "--option", "reward=calibrated").exit_code == 0
    assert read(target)[0]["reward"] == pytest.approx(1 - 0.04)


def test_a_request(call, tmp_path: Path) -> None:
    request = {"task": "bioprobench.pqa", "references": ["5 ml"], "responses": [QUESTIONS[0]["generated_response"]]}
    path, target = tmp_path / "in.json", tmp_path / "reply.json"
    path.write_text(json.dumps(request))
    assert call("score", path, "-o", target).exit_code == 0
    assert json.loads(target.read_text())["rewards"] == [1.0]
    assert "names its own tasks" in call("score", path, "-o", target, *PQA).stderr
    path.write_text(json.dumps({**request, "references": [5]}))
    assert call("score", path, "-o", target).exit_code == 1
    assert json.loads(target.read_text())["errors"][0]["path"] == "references[0]"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--task", "llam"], "--task: must be one of"),
        (["--option", "a=1"], "--option is for other tasks"),
        ([*PQA, "--option", "metrics=[]"], "--metrics: there is no setting"),
        ([*PQA, "--report", "r.html"], "--report is for SCORE only"),
        ([*PQA, "--order", "lcs", "--no-use-length"], "--order, --use-length: for SCORE only"),
        ([*PQA, "--task-field", "task"], "exclude each other"),
    ],
)
def test_wrong_calls(call, tmp_path: Path, flags: list[str], said: str) -> None:
    result = call("score", write_rows(tmp_path / "in.jsonl", QUESTIONS), *flags)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize("flags", [[], ["--reference-field", "ground_truth"]])
def test_a_field_of_the_record_is_not_the_whole_reference(call, tmp_path: Path, flags: list[str]) -> None:
    """`ground_truth` is a usual name of references, and a field of BioPlanner's records among others."""
    body, program = "def spin(cells):\n    pass\n\n", 'spin(cells="HeLa")'
    row = {"ground_truth": body + program, "prediction_code": program, "prediction_functions": body}
    path, target = write_rows(tmp_path / "in.jsonl", [row]), tmp_path / "out.jsonl"
    found = {}
    for name, task_flags in {"fixed": ["--task", "bioplanner"], "each": ["--task-field", "task"]}.items():
        write_rows(path, [row | {"task": "bioplanner"}])
        assert call("score", path, "-o", target, "--include", "components", *task_flags, *flags).exit_code == 0
        found[name] = read(target)[0]["components"]
    scores = Scorer().score([program], [row], task="bioplanner")
    expected = {name: column[0] for name, column in scores.components.items()}
    assert found == {"fixed": expected, "each": expected}


def test_a_record_as_text_in_a_field_of_the_same_name(call, tmp_path: Path) -> None:
    """As `assay prepare` writes references of `lexical`, whose records have a field `reference` too."""
    row = {"reference": json.dumps({"reference": "Wash the cells."}), "response": "Wash the cells.", "task": "lexical"}
    path, target = write_rows(tmp_path / "in.jsonl", [row]), tmp_path / "out.jsonl"
    for flags in (
        ["--task", "lexical", "--option", "reward=rouge_l"],
        ["--task-field", "task", "--option", "lexical.reward=rouge_l"],
    ):
        assert call("score", path, "-o", target, *flags).exit_code == 0
        assert read(target)[0]["reward"] == 1.0

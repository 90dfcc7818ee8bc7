"""`assay score --task-field`: files whose rows are of several tasks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer
from assay.service.rewards.registry import REWARD_TASKS, TASK_COMPONENTS
from tests.cases.mixed import OPTIONS, ROWS, Row
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE, write_rows
from tests.http.samples import REFERENCE as LINES

pytest.importorskip("pyarrow")

import pyarrow as pa

from tests.files.any_format import FORMATS, read, write

BY_TASK = ("--task-field", "task")
BOTH = ("--include", "components,advantages")
FLAGS = ("--order", "lcs", "--option", "bioprobench.ord.repeats=failed", "--option", "lexical.reward=rouge_l")
RESULTS = {"reward", "reason", "components", "advantage", "error"}

ORD = {"wrong_steps": ["b", "a"], "correct_steps": ["a", "b"]}
RIGHT = "[ANSWER_START][1, 0][ANSWER_END]"


def rows_of_file(columnar: bool) -> list[dict[str, Any]]:
    """Return the shared rows as rows of a file; a column holds references of several kinds as text."""
    return [
        {
            "id": k,
            "task": row.task,
            "response": row.response,
            "reference": text_of(row) if columnar else row.reference,
            "group": f"{type(row.group).__name__} {row.group}",
        }
        for k, row in enumerate(ROWS)
    ]


def text_of(row: Row) -> str:
    """Return a reference as text: that of SCORE is its lines."""
    return LINES if row.task == "score" else row.reference_text


@pytest.fixture(scope="module")
def alone() -> list[dict[str, Any]]:
    """Return the results of each of the shared rows, from the rows of its task alone."""
    found: dict[int, dict[str, Any]] = {}
    for task in REWARD_TASKS:
        members = [k for k, row in enumerate(ROWS) if row.task == task]
        texts, references = [ROWS[k].response for k in members], [ROWS[k].reference for k in members]
        scores = Scorer(order="lcs").score(texts, references, task=task, task_options=OPTIONS.get(task))
        for row, k in enumerate(members):
            columns = dict.fromkeys(TASK_COMPONENTS, 0.0) | {name: c[row] for name, c in scores.components.items()}
            found[k] = {"reward": scores.rewards[row], "reason": str(scores.reasons[row]), "components": columns}
    return [found[k] for k in range(len(ROWS))]


@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_the_bits_are_those_of_one_task_at_a_time(call, tmp_path: Path, alone, source: str, target: str) -> None:
    content = rows_of_file(columnar=source in ("parquet", "arrow"))
    path, out = write(tmp_path / f"in.{source}", content), tmp_path / f"out.{target}"
    result = call("score", path, "-o", out, *BY_TASK, *BOTH, *FLAGS, "--group-field", "group")
    assert result.exit_code == 0, result.stderr
    found = read(out, TASK_COMPONENTS)
    assert [{name: row[name] for name in alone[0]} for row in found] == alone
    assert [row["reward"] for row in found] == [row.reward for row in ROWS]
    scores = Scorer(order="lcs").score(
        [row.response for row in ROWS],
        [row.reference for row in ROWS],
        groups=[row["group"] for row in content],
        task=[row.task for row in ROWS],
        task_options={name: options for name, options in OPTIONS.items() if name != "order"},
    )
    assert [row["advantage"] for row in found] == scores.advantages().tolist()
    kept = [{name: value for name, value in row.items() if name not in RESULTS} for row in found]
    if target in ("parquet", "arrow"):
        kept = [{**row, "reference": old["reference"]} for row, old in zip(kept, content, strict=True)]
    assert kept == content


def test_more_rows_than_fit_into_one_piece(call, tmp_path: Path, alone) -> None:
    """Groups and dictionaries of references are those of the whole file."""
    content = [{**row, "id": k} for k, row in enumerate(rows_of_file(columnar=True) * 300)]
    found = {}
    for source in ("jsonl", "parquet"):
        path, target = write(tmp_path / f"in.{source}", content, 3_000), tmp_path / f"out.{source}.jsonl"
        assert call("score", path, "-o", target, "-q", *BY_TASK, *BOTH, *FLAGS).exit_code == 0
        found[source] = read(target)
    assert found["jsonl"] == found["parquet"]
    assert [row["reward"] for row in found["jsonl"]] == [row["reward"] for row in alone] * 300


PROGRAM = 'def spin(cells):\n    pass\n\nspin(cells="HeLa")'
MIXED = [
    {"reference": REFERENCE, "response": RESPONSE},
    {"task": "bioprobench.ord", "reference": ORD, "response": RIGHT},
    {"task": "bioprobench.pqa", "answer": "5 ml", "generated_response": "[ANSWER_START]5 ml & 80[ANSWER_END]"},
    {"task": "bioprobench.err", "reference": {"is_correct": False}, "response": "[ANSWER_START]False[ANSWER_END]"},
    {"task": "bioplanner", "reference": {"ground_truth": PROGRAM}, "prediction_code": PROGRAM},
]


@pytest.mark.parametrize("source", FORMATS)
def test_references_as_objects_and_records_without_one(call, tmp_path: Path, source: str) -> None:
    rows = MIXED
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / f"out.{source}"
    result = call("score", path, "-o", target, *BY_TASK)
    assert result.exit_code == 0, result.stderr
    assert [row["reward"] for row in read(target)] == [1.0] * 5


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_rows_of_other_tasks_need_no_reference(call, tmp_path: Path, source: str) -> None:
    """Those of SCORE do."""
    rows = [
        {"task": "bioprobench.ord", **ORD, "generated_response": RIGHT},
        {"task": "score", "generated_response": "x"},
    ]
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / "out.jsonl"
    assert call("score", path, "-o", target, *BY_TASK).exit_code == 1
    first, second = read(target)
    assert (first["reward"], second["error"]["reason"]) == (1.0, "missing_field")


@pytest.mark.parametrize("kind", ["dictionary", "views"])
def test_columns_of_other_types(call, tmp_path: Path, alone, kind: str) -> None:
    table = pa.Table.from_pylist(rows_of_file(columnar=True))
    for k, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table[field.name]
            column = column.dictionary_encode() if kind == "dictionary" else column.cast(pa.string_view())
            table = table.set_column(k, field.name, column)
    path, target = tmp_path / "in.arrow", tmp_path / "out.jsonl"
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    result = call("score", path, "-o", target, *BY_TASK, *FLAGS)
    assert result.exit_code == 0, result.stderr
    assert [row["reward"] for row in read(target)] == [row["reward"] for row in alone]


@pytest.mark.parametrize("source", FORMATS)
def test_faults_name_the_row_and_its_task(call, tmp_path: Path, source: str) -> None:
    good = {"task": "score", "reference": KEY_LINE, "response": RESPONSE, "g": "1"}
    rows: list[dict[str, Any]] = [
        good,
        {**good, "task": "bioprobench.odr"},
        {**good, "task": None},
        {**good, "task": "bioprobench.ord"},
        {**good, "reference": "no step"},
        {**good, "task": "bioprobench.ord", "response": None, "reference": json.dumps(ORD)},
        {**good, "task": "bioprobench.pqa", "g": None},
        {**good, "g": None},
        {**good, "task": "score ", "g": "1"},
    ]
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / f"out.{source}"
    result = call("score", path, "-o", target, *BY_TASK, "--group-field", "g", "--include", "advantages")
    assert result.exit_code == 1
    found = read(target)
    assert [row.get("advantage") for row in found] == [0.0, None, 0.0, *[None] * 6]
    errors = [row.get("error", {}) for row in found]
    assert [error.get("reason") for error in errors] == [
        *(None, "unknown_task", None, "bad_reference", "bad_step_line"),
        *("not_a_string", "wrong_type", "wrong_type", "unknown_task"),
    ]
    assert errors[1]["detail"].endswith("did you mean bioprobench.ord?")
    assert errors[3]["detail"].startswith("reference of bioprobench.ord: ")
    assert errors[4]["detail"].startswith("reference of score: ")
    assert errors[6]["detail"] == errors[7]["detail"] == "group: it is null"
    for k, error in enumerate(errors):
        place = f"{path}:{k + 1}" if source == "jsonl" else f"{path}[{k}]"
        assert not error or f"{place}: {error['detail']} ({error['reason']})" in result.stderr


@pytest.mark.parametrize("number", [2, 2.0])
def test_numbers_of_tasks(call, tmp_path: Path, number: float) -> None:
    """Rollout dumps of trainers have them."""
    rows = [
        {"score_task": number, "input": "p", "output": RIGHT, "gts": ORD},
        {"score_task": 0, "input": "q", "output": RESPONSE, "gts": REFERENCE},
        {"score_task": 6, "input": "q", "output": RESPONSE, "gts": REFERENCE},
        {"score_task": True, "input": "q", "output": RESPONSE, "gts": REFERENCE},
    ]
    path, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    result = call("score", path, "-o", target, "--layout", "verl", "--task-field", "score_task")
    assert result.exit_code == 1
    assert [row.get("reward") for row in read(target)] == [1.0, 1.0, None, None]


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_a_path_into_the_row(call, tmp_path: Path, source: str) -> None:
    rows = [
        {"metadata": {"task": "bioprobench.ord", "x": 1}, "reference": ORD, "response": RIGHT},
        {"metadata": {"x": 1}, "reference": REFERENCE, "response": RESPONSE},
        {"reference": REFERENCE, "response": RESPONSE},
    ]
    path, target = write(tmp_path / f"in.{source}", rows), tmp_path / "out.jsonl"
    assert call("score", path, "-o", target, "--task-field", "metadata.task").exit_code == 0
    assert [row["reward"] for row in read(target)] == [1.0] * 3
    result = call("score", path, "-o", target, "--task-field", "metadata.tsk")
    assert result.exit_code == 2
    assert "'metadata.tsk'" in result.stderr
    assert "--task-field" in result.stderr


def test_a_long_beginning_without_the_field(call, tmp_path: Path) -> None:
    rows = [{"reference": KEY_LINE, "response": RESPONSE}] * 100 + [MIXED[1]]
    path, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / "out.jsonl"
    result = call("score", path, "-o", target, "-q", *BY_TASK)
    assert result.exit_code == 0
    assert "warning: " in result.stderr
    assert "no field 'task' in any of the first 100 rows" in result.stderr
    assert [row["reward"] for row in read(target)] == [1.0] * 101


def test_equal_references_of_two_tasks_are_two_groups(call, tmp_path: Path) -> None:
    rows = [
        {"task": task, "reference": KEY_LINE, "response": response}
        for task in ("score", "bioprobench.pqa")
        for response in (RESPONSE, "nothing")
    ]
    target = tmp_path / "out.jsonl"
    for source in ("jsonl", "parquet"):
        path = write(tmp_path / f"in.{source}", rows)
        assert call("score", path, "-o", target, *BY_TASK, "--include", "advantages").exit_code == 0
        assert [row["advantage"] for row in read(target)] == pytest.approx([0.5**0.5, -(0.5**0.5), 0.0, 0.0])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["repeats=failed"], "TASK.NAME=VALUE; TASK must be one of: bioprobench.pqa"),
        (["bioprobench.odr.repeats=failed"], "did you mean bioprobench.ord?"),
        (["bioprobench.ord.repeat=failed", "lexical.rewrd=x"], "--option lexical.rewrd: "),
        (["score.order=lcs"], "TASK must be one of"),
    ],
)
def test_wrong_options(call, tmp_path: Path, options: list[str], said: str) -> None:
    flags = [part for option in options for part in ("--option", option)]
    result = call("score", write_rows(tmp_path / "in.jsonl", MIXED), *BY_TASK, *flags)
    assert result.exit_code == 2
    assert said in result.stderr


def test_the_summary_is_by_task(call, tmp_path: Path) -> None:
    path, target = write_rows(tmp_path / "in.jsonl", rows_of_file(columnar=False)), tmp_path / "out.jsonl"
    shown = call("score", path, "-o", target, *BY_TASK, *FLAGS).stderr
    table = [line.split() for line in shown.splitlines()]
    assert ["score", "4", "50.0", "%", "25.0", "%", "0.3970", "0.0000", "0.2939", "1.0000"] in table
    assert ["bioprobench.pqa", "3", "66.7", "%", "33.3", "%", "0.3333", "0.0000", "0.0000", "1.0000"] in table
    assert ["bioprobench.ord", "repeats", "1", "33.3", "%"] in table


def test_a_report_is_on_the_rows_of_score(call, tmp_path: Path) -> None:
    rows = rows_of_file(columnar=True)
    pages = []
    for name in ("in.jsonl", "in.parquet"):
        path, page = write(tmp_path / name, rows), tmp_path / f"{name}.html"
        assert call("score", path, "-o", tmp_path / "out.jsonl", *BY_TASK, *FLAGS, "--report", page).exit_code == 0
        pages.append(page.read_text())
    for page in pages:
        assert re.search(r"11 rows of other tasks", page)
        assert "bioprobench.pqa" in page

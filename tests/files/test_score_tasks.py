"""`assay score` for rows of other tasks, of several tasks, and for a request document."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer
from assay.service.rewards.registry import TASK_COMPONENTS
from examples import rollouts as generator
from tests.cases.mixed import OPTIONS, ROWS
from tests.command_line import KEY_LINE, REFERENCE, RESPONSE
from tests.files.any_format import FORMATS, read, write
from tests.http.samples import REFERENCE as LINES

# Rows of several tasks


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
            "reference": row.reference if not columnar else LINES if row.task == "score" else row.reference_text,
            "group": f"{type(row.group).__name__} {row.group}",
        }
        for k, row in enumerate(ROWS)
    ]


@pytest.mark.parametrize(("source", "target"), [*zip(FORMATS, FORMATS[::-1], strict=True)])
def test_the_bits_are_those_of_the_scorer(score, source: str, target: str) -> None:
    """Which are those of one task at a time: tests/rewards/test_mixed.py."""
    content = rows_of_file(columnar=source in ("parquet", "arrow"))
    flags = (*BY_TASK, *BOTH, *FLAGS, "--group-field", "group")
    rows, _ = score(content, *flags, source=source, target=target, names=TASK_COMPONENTS)
    assert [(row["reward"], row["reason"]) for row in rows] == [(row.reward, row.reason) for row in ROWS]
    scores = Scorer(order="lcs").score(
        [row.response for row in ROWS],
        [row.reference for row in ROWS],
        groups=[row["group"] for row in content],
        task=[row.task for row in ROWS],
        task_options={name: options for name, options in OPTIONS.items() if name != "order"},
    )
    assert [row["advantage"] for row in rows] == scores.advantages().tolist()
    columns = {name: [row["components"][name] for row in rows] for name in TASK_COMPONENTS}
    assert columns == {name: column.tolist() for name, column in scores.components.items()}
    fields = [{name: value for name, value in row.items() if name not in RESULTS} for row in rows]
    if target in ("parquet", "arrow"):
        fields = [{**row, "reference": old["reference"]} for row, old in zip(fields, content, strict=True)]
    assert fields == content


@pytest.mark.parametrize("source", FORMATS)
def test_faults_name_the_row_and_its_task(score, tmp_path: Path, source: str) -> None:
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
    flags = (*BY_TASK, "--group-field", "g", "--include", "advantages")
    table, said = score(rows, *flags, code=1, source=source, target=source)
    path = tmp_path / f"in.{source}"
    assert [row.get("advantage") for row in table] == [0.0, None, 0.0, *[None] * 6]
    errors = [row.get("error", {}) for row in table]
    assert [error.get("reason") for error in errors] == [
        *(None, "unknown_task", None, "bad_reference", "bad_step_line"),
        *("not_a_string", "wrong_type", "wrong_type", "unknown_task"),
    ]
    assert errors[1]["detail"].endswith("did you mean bioprobench.ord?")
    for k, error in enumerate(errors):
        place = f"{path}:{k + 1}" if source == "jsonl" else f"{path}#{k + 1}"
        assert not error or f"{place}: {error['detail']} ({error['reason']})" in said


@pytest.mark.parametrize("source", ["jsonl", "parquet"])
def test_a_path_into_the_row(score, source: str) -> None:
    rows = [
        {"metadata": {"task": "bioprobench.ord", "x": 1}, "reference": ORD, "response": RIGHT},
        {"metadata": {"x": 1}, "reference": REFERENCE, "response": RESPONSE},
        {"reference": REFERENCE, "response": RESPONSE},
    ]
    table, _ = score(rows, "--task-field", "metadata.task", source=source)
    assert [row["reward"] for row in table] == [1.0] * 3
    _, said = score(rows, "--task-field", "metadata.tsk", source=source, code=2)
    assert "'metadata.tsk'" in said
    assert "--task-field" in said


PQA = ("--task", "bioprobench.pqa")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((*BY_TASK, "--option", "repeats=failed"), "TASK.NAME=VALUE; TASK must be one of: bioprobench.pqa"),
        (
            (*BY_TASK, "--option", "bioprobench.ord.repeat=failed", "--option", "lexical.rewrd=x"),
            "--option lexical.rewrd: ",
        ),
        (("--option", "a=1"), "--option is for other tasks"),
        ((*PQA, "--html", "r.html"), "--html is for SCORE only"),
        ((*PQA, "--order", "lcs", "--no-use-length"), "--order, --use-length: for SCORE only"),
        ((*PQA, "--task-field", "task"), "exclude each other"),
    ],
)
def test_wrong_flags(score, flags: tuple[str, ...], message: str) -> None:
    assert message in score([{"reference": REFERENCE, "response": RESPONSE}], *flags, code=2)[1]


# Every row is of one other task


QUESTIONS = [
    {"id": 1, "answer": "5 ml", "generated_response": "[ANSWER_START]5 ml & 80[ANSWER_END]"},
    {"id": 2, "answer": "5 ml", "generated_response": "[ANSWER_START]6 ml & 80[ANSWER_END]"},
    {"id": 3, "answer": "7 ml", "generated_response": "I do not know"},
]


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("own_references", [False, True])
def test_records_and_references(score, source: str, own_references: bool) -> None:
    rows: list[dict[str, Any]] = QUESTIONS
    if own_references:
        rows = [{"response": row["generated_response"], "reference": row["answer"]} for row in QUESTIONS]
    table, _ = score(rows, *PQA, *BOTH, source=source, target=source, names=TASK_COMPONENTS)
    texts, answers = ([row[name] for row in QUESTIONS] for name in ("generated_response", "answer"))
    scores = Scorer().score(texts, answers, [0, 0, 2], task="bioprobench.pqa")
    assert [row["reward"] for row in table] == scores.rewards.tolist() == [1.0, 0.0, 0.0]
    assert [row["advantage"] for row in table] == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5), 0.0])
    columns = {name: [row["components"][name] for row in table] for name in TASK_COMPONENTS}
    assert columns == {name: column.tolist() for name, column in scores.components.items()}
    added = {"reward", "reason", "components", "advantage"}
    assert [{name: value for name, value in row.items() if name not in added} for row in table] == rows


@pytest.mark.parametrize("flags", [[], ["--reference-field", "ground_truth"]])
def test_a_field_of_the_record_is_not_the_whole_reference(score, flags: list[str]) -> None:
    """`ground_truth` is a usual name of references, and a field of BioPlanner's records among others."""
    body, program = "def spin(cells):\n    pass\n\n", 'spin(cells="HeLa")'
    row = {"ground_truth": body + program, "prediction_code": program, "prediction_functions": body}
    scores = Scorer().score([program], [row], task="bioplanner")
    expected = {name: column[0] for name, column in scores.components.items()}
    for task in (("--task", "bioplanner"), BY_TASK):
        rows, _ = score([row | {"task": "bioplanner"}], "--include", "components", *task, *flags)
        assert rows[0]["components"] == expected


# A request document: the reply of the service


def test_the_reply_is_that_of_the_service(score, example_rollouts) -> None:
    request = generator.as_request(example_rollouts)
    asked = {**request, "config": {"order": "lcs"}, "include": ["components"]}
    reply, _ = score(asked, "--include", "advantages", "--reward-scale", "raw", source="json", target="json")
    scorer = Scorer(order="lcs", reward_scale="raw")
    scores = scorer.score(request["responses"], request["references"], request["reference_index"])
    assert reply == {
        "rewards": scores.rewards.tolist(),
        "reasons": scores.reasons.tolist(),
        "components": {name: column.tolist() for name, column in scores.components.items()},
        "advantages": scores.advantages().tolist(),
        "config_id": scorer.config_id,
        "signature": scorer.signature,
    }
    asked = request | {"configs": [{"order": "lcs"}]}
    reply, _ = score(asked, source="json", target="json")
    assert [each["rewards"] for each in reply["configs"]] == [Scorer(order="lcs").score(**request).rewards.tolist()]
    assert "configs: rows have the results of one configuration" in score(asked, source="json", code=1)[1]


def test_every_validation_error_is_listed(call, tmp_path: Path) -> None:
    request = {"references": [KEY_LINE, "", "no"], "responses": ["x", 5, "y"]}
    request |= {"config": {"ordre": 1}, "surplus": 0}
    source = write(tmp_path / "in.json", request)
    assert call("score", source, "-o", tmp_path / "none.parquet").exit_code == 1
    assert not (tmp_path / "none.parquet").exists()
    for target in (tmp_path / "out.json", tmp_path / "out.jsonl"):
        result = call("score", source, "-o", target)
        assert result.exit_code == 1
        document = read(target) if target.suffix == ".json" else read(target)[0]
        paths = [error["path"] for error in document["errors"]]
        assert sorted(paths) == sorted(["references[1]", "references[2]", "responses[1]", "config.ordre", "surplus"])
        assert document["error_count"] == len(paths)
        for path in paths:
            assert f"{source}: {path}: " in result.stderr
    assert call("score", write(source, {"rows": []}), "-o", tmp_path / "out.json").exit_code == 1
    assert {error["path"] for error in read(tmp_path / "out.json")["errors"]} == {"rows", "references", "responses"}

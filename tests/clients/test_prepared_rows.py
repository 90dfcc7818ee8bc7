"""Rows of `assay prepare` for frameworks, and scores, explanations and evaluations of responses to them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from assay.service.tasks.evaluation import evaluate as evaluate_here
from assay.service.tasks.evaluation import task_named
from assay_client import InvalidReference, Unavailable
from assay_environments import (
    PreparedRow,
    Scored,
    read_rows,
    score_response_async,
    score_responses,
    score_responses_async,
)
from assay_environments.scoring import METRICS, evaluate, explanation, record_of
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import PERFECT, REFERENCE, SWAPPED

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which step is wrong?"}]
ROW = {"prompt": MESSAGES, "reference": "key lines", "id": "r1", "task": "score", "group": "g1", "split": "test"}
ORD = ROW | {"id": "r2", "task": "bioprobench.ord", "reference": '{"correct_steps": ["a"]}', "level": "2"}
MIXED = [PreparedRow(MESSAGES, sample.reference_text, sample.task, f"row {k}") for k, sample in enumerate(ROWS)]


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_split_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "test.jsonl", ROW, ORD)
    written(tmp_path / "train.jsonl", ROW | {"id": 7, "prompt": "Which?", "level": "", "type": None, "task": None})
    first, second = read_rows(tmp_path)
    assert first == PreparedRow(MESSAGES, "key lines", "score", "r1", {"group": "g1", "split": "test"})
    assert second.columns["level"] == "2"
    monkeypatch.setenv("ASSAY_ROWS", str(tmp_path))
    (row,) = read_rows(split="train")
    prompt = [{"role": "user", "content": "Which?"}]
    assert row == PreparedRow(prompt, "key lines", "score", "7", {"group": "g1", "split": "test"})


def test_rows_as_prime_rl_has_them(tmp_path: Path) -> None:
    info = {name: value for name, value in ORD.items() if name not in ("prompt", "reference")}
    file = written(tmp_path / "any.jsonl", {"prompt": MESSAGES, "answer": ORD["reference"], "info": info})
    assert read_rows(file) == read_rows(written(tmp_path / "trl.jsonl", ORD))


def test_a_row_with_alternatives(tmp_path: Path) -> None:
    """As `assay prepare --alternatives` writes it."""
    (row,) = read_rows(written(tmp_path / "rows.jsonl", ROW | {"reference": ["prose", "Step 1: µ"]}))
    assert row.reference == '{"any_of": ["prose", "Step 1: µ"]}'


def test_rows_are_selected_by_columns_whatever_type_the_framework_passes(tmp_path: Path) -> None:
    file = written(tmp_path / "rows.jsonl", ROW, ORD, ORD | {"id": "r3", "level": "1"})
    assert [row.id for row in read_rows(file, level=2)] == ["r2"]
    assert [row.id for row in read_rows(file, task="bioprobench.ord", level=None)] == ["r2", "r3"]
    with pytest.raises(ValueError, match=r"no row with \{'level': '9'\}; it has level: 1, 2, None"):
        read_rows(file, level=9)
    with pytest.raises(ValueError, match="no column difficulty"):
        read_rows(file, difficulty=2)


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    prompts = (None, [], [{"role": "user"}], ["Which?"])
    records = [
        *((ROW | {"prompt": prompt}, "prompt") for prompt in prompts),
        (ROW | {"reference": {"steps": []}}, "reference"),
        (ROW | {"info": "{}"}, "info"),
        ([ROW], "it is no object"),
    ]
    for record, message in records:
        file = written(tmp_path / "rows.jsonl", ROW, record)
        with pytest.raises(ValueError, match=re.escape(f"{file}:2: not a row of assay prepare: ") + f".*{message}"):
            read_rows(file)
    file.write_text('\n{"prompt"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: not a row"):
        read_rows(file)


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="set ASSAY_ROWS"):
        read_rows()
    with pytest.raises(FileNotFoundError, match=r"test\.jsonl"):
        read_rows(tmp_path)
    (tmp_path / "test.parquet").touch()
    for path in (tmp_path, tmp_path / "test.parquet"):
        with pytest.raises(ValueError, match="rows as Parquet"):
            read_rows(path)
    with pytest.raises(ValueError, match="has no row"):
        read_rows(written(tmp_path / "empty.jsonl"))


@pytest.mark.usefixtures("at")
def test_scores_of_rows_of_several_tasks() -> None:
    """From one request, and from concurrent calls of one response each."""
    responses = [row.response for row in ROWS]

    async def one_by_one() -> list[Scored]:
        calls = [score_response_async(*pair, OPTIONS) for pair in zip(MIXED, responses, strict=True)]
        return list(await asyncio.gather(*calls))

    scores = score_responses(MIXED, responses, OPTIONS)
    expected = [(row.reward, row.reason, row.passed, row.task) for row in ROWS]
    assert [(score.reward, score.reason, score.passed, score.task) for score in scores] == expected
    assert scores == asyncio.run(score_responses_async(MIXED, responses, OPTIONS)) == asyncio.run(one_by_one())
    assert set(scores[1].components) == {"accuracy", "brier", "confidence"}
    assert score_responses([], []) == []


@pytest.mark.usefixtures("at")
def test_an_invalid_reference_names_the_row() -> None:
    wrong = PreparedRow(MESSAGES, '{"wrong_steps": 5}', "bioprobench.ord", "row 99")
    with pytest.raises(InvalidReference, match="record row 99"):
        score_responses([MIXED[0], wrong], ["x", "y"])
    with pytest.raises(InvalidReference, match="record row 99"):
        asyncio.run(score_response_async(wrong, "y"))


@pytest.mark.usefixtures("down")
def test_a_failure_of_the_service_is_an_error() -> None:
    with pytest.raises(Unavailable):
        score_responses(MIXED[:1], ["x"])
    with pytest.raises(Unavailable):
        evaluate("score", [record_of(MIXED[0], "x")])


@pytest.mark.usefixtures("at")
def test_the_snippet_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    readme = (ROOT / "environments" / "README.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prepared").mkdir()
    written(tmp_path / "prepared" / "test.jsonl", ROW | {"reference": REFERENCE, "type": "planning"})
    model = SimpleNamespace(generate=lambda messages: PERFECT)
    monkeypatch.setitem(sys.modules, "my_package", model)
    exec(compile(snippet, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["1.0 ok True"]


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("task", METRICS)
def test_metrics_are_those_of_an_evaluation_with_the_options_of_the_task(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    records = [record_of(row, sample.response) for row, sample in zip(MIXED, ROWS, strict=True) if row.task == task]
    options: dict[str, Any] = OPTIONS.get(task, {})
    expected = evaluate_here(task, [json.loads(record) for record in records], **options).aggregate
    assert evaluate(task, records)["aggregate"] == {name: expected[name] for name in ("count", *METRICS[task])}
    assert set(METRICS[task]) <= {metric.name for metric in task_named(task).metrics if metric.default}


@pytest.mark.usefixtures("at")
def test_options_of_the_reward_that_the_evaluation_has_too_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    unopened = record_of(PreparedRow([], REFERENCE), PERFECT.removeprefix("<think>"))
    assert evaluate("score", [unopened])["aggregate"]["order_s"] == 0.0
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", '{"think_prefilled": true, "order": "lcs"}')
    assert evaluate("score", [unopened])["aggregate"]["order_s"] == 1.0


@pytest.mark.parametrize(
    ("task", "reference", "record"),
    [
        ("bioprobench.pqa", "5", {"answer": "5"}),
        ("bioprobench.pqa", '{"answer": "5", "choices": ["5"]}', {"answer": "5", "choices": ["5"]}),
        ("bioprobench.err", " False", {"is_correct": False}),
        ("bioprobench.err", "true", {"is_correct": True}),
    ],
)
def test_a_short_reference_is_the_right_answer(task: str, reference: str, record: dict[str, Any]) -> None:
    assert json.loads(record_of(PreparedRow([], reference, task), "x")) == {**record, "generated_response": "x"}


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("task", "reference", "response", "beginning"),
    [
        ("score", REFERENCE, SWAPPED, "Reward 0.5879 of at most 1.0000: position −0.2121 "),
        ("score", REFERENCE, "nothing", "Fails the format gate (missing_sections). Reward 0.0000 of at most 1.0000: "),
        ("score", REFERENCE, "x" * 4_300_000, "Reward 0.0000 (format 0.0000, "),
        ("bioprobench.err", "false", "[ANSWER_START]False[ANSWER_END]", "Reward 1.0000 (accuracy 1.0000, called_"),
    ],
    ids=["parts", "gate", "too long to be explained", "another task"],
)
def test_explanations(
    task: str, reference: str, response: str, beginning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    row = PreparedRow([], reference, task)

    async def explain() -> str:
        return await explanation(row, response, await score_response_async(row, response))

    assert asyncio.run(explain()).startswith(beginning)

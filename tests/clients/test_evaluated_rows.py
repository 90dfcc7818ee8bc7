"""Evaluations and explanations of answers to prepared rows, as frameworks report them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from assay.service.tasks.evaluation import evaluate as evaluate_here
from assay.service.tasks.evaluation import task_named
from assay_client import Unavailable
from assay_environments import PreparedRow, score_response_async
from assay_environments.scoring import METRICS, evaluate, explanation, record_of
from tests.cases.mixed import OPTIONS, ROWS
from tests.http.samples import PERFECT, REFERENCE, SWAPPED
from tests.servers import LiveServer


@pytest.fixture(autouse=True)
def at(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ASSAY_URL", server.url)
    monkeypatch.setenv("ASSAY_CLIENT_CONFIG", json.dumps(OPTIONS))
    return server.url


def prepared(task: str) -> list[tuple[PreparedRow, str]]:
    return [
        (PreparedRow([], one.reference_text, task, f"row {k}"), one.response)
        for k, one in enumerate(ROWS)
        if one.task == task
    ]


def records_of(task: str) -> list[bytes]:
    return [record_of(row, response) for row, response in prepared(task)]


def explained(row: PreparedRow, response: str) -> str:
    async def explain() -> str:
        return await explanation(row, response, await score_response_async(row, response))

    return asyncio.run(explain())


@pytest.mark.parametrize("task", METRICS)
def test_metrics_are_those_of_an_evaluation_with_the_options_of_the_task(task: str) -> None:
    found = evaluate(task, records_of(task))
    options: dict[str, Any] = OPTIONS.get(task, {})
    expected = evaluate_here(task, [json.loads(record) for record in records_of(task)], **options).aggregate
    assert found["aggregate"] == {name: expected[name] for name in ("count", *METRICS[task])}


@pytest.mark.parametrize("task", METRICS)
def test_metrics_are_defaults_of_the_task(task: str) -> None:
    assert set(METRICS[task]) <= {metric.name for metric in task_named(task).metrics if metric.default}


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


def test_a_failure_of_the_service_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ASSAY_CLIENT_TIMEOUT", "0.1")
    with pytest.raises(Unavailable):
        evaluate("score", records_of("score"))


@pytest.mark.parametrize(
    ("response", "beginning"),
    [
        (PERFECT, "Reward 1.0000 of at most 1.0000: no deductions."),
        (SWAPPED, "Reward 0.5879 of at most 1.0000: position −0.2121 "),  # order = lcs
        ("nothing", "Fails the format gate (missing_sections). Reward 0.0000 of at most 1.0000: "),
        ("x" * 262_145, "Fails the format gate (too_long). Reward 0.0000 of at most 1.0000: "),
        ("x" * 4_300_000, "Reward 0.0000 (format 0.0000, "),  # which the service scores, but does not explain
    ],
    ids=["perfect", "swapped", "nothing", "long", "too long to be explained"],
)
def test_explanations_name_the_gate_or_what_each_part_costs(response: str, beginning: str) -> None:
    assert explained(PreparedRow([], REFERENCE), response).startswith(beginning)


def test_explanations_of_other_tasks_are_reason_and_components() -> None:
    right, unread = prepared("bioprobench.err")[:2]
    assert explained(*right) == "Reward 1.0000 (accuracy 1.0000, called_erroneous 1.0000): A verdict was read."
    assert explained(*unread).startswith("Reward 0.0000 (accuracy 0.0000, called_erroneous 0.0000): ")

"""The functions that the tasks' YAML files name: rows, the scores of an answer, and metrics over all answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from datasets import Dataset

from assay_client.tasks import SCORE
from assay_environments import PreparedRow, read_rows, score_responses
from assay_environments.evaluating import METRICS, evaluate, record_of

__all__ = ["MetricValue", "dataset", "evaluated", "process_results"]

PROMPTS = (["user"], ["system", "user"])
"""Roles of the messages that the harness can send: a task has a description, the system message, and a text."""


class MetricValue(float):
    """A metric of one answer, NaN if it has none, with the record for the metric over all answers."""

    metric: str
    task: str
    record: bytes


def dataset(
    rows: str | None = None, split: str = "test", where: Mapping[str, object] | None = None, **_others: Any
) -> dict[str, Dataset]:
    """Return the rows of a task; raises what `read_rows` does, and ValueError naming a row that cannot be sent.

    rows, split: may come from `--metadata`, which holds other things too. where: from the task's file.
    """
    return {"test": Dataset.from_list([document_of(row) for row in read_rows(rows, split, **(where or {}))])}


def document_of(row: PreparedRow) -> dict[str, str]:
    """Return the document of a row; raises ValueError naming the row if the harness cannot send its messages."""
    roles = [message["role"] for message in row.prompt]
    if roles not in PROMPTS:
        detail = "the harness sends one user message, and at most a system message before it"
        raise ValueError(f"record {row.id}: the roles of the prompt are {', '.join(roles)}; {detail}")
    texts = {message["role"]: message["content"] for message in row.prompt}
    return {
        "id": row.id,
        "task": row.task,
        "system": texts.get("system", ""),
        "user": texts["user"],
        "reference": row.reference,
    }


def process_results(document: Mapping[str, str], results: Sequence[str]) -> dict[str, float]:
    """Return reward and metrics of the answer to a document; raises AssayError if the service gives none."""
    row = PreparedRow([], document["reference"], document["task"], document["id"])
    (response,) = results
    (scored,) = score_responses([row], [response])
    components = scored.components if row.task == SCORE else {}  # others have the names of metrics over all answers
    return {"reward": scored.reward, "passed": scored.passed, **components, **measured(row, response)}


def measured(row: PreparedRow, response: str) -> dict[str, float]:
    record = record_of(row, response)
    columns = evaluate(row.task, [record])["per_record"]
    values: dict[str, float] = {}
    for metric in METRICS[row.task]:
        (value,) = columns.get(metric, [None])
        values[metric] = measurement = MetricValue("nan" if value is None else value)
        measurement.metric, measurement.task, measurement.record = metric, row.task, record
    return values


def evaluated(values: Sequence[MetricValue]) -> float:
    """Return the metric over all answers, as `assay evaluate` computes it; NaN if it has no value."""
    value = aggregate_of(values[0].task, tuple(measurement.record for measurement in values))[values[0].metric]
    return float("nan") if value is None else float(value)


@lru_cache(maxsize=1)
def aggregate_of(task: str, records: tuple[bytes, ...]) -> dict[str, float | None]:
    """Return all metrics of these records, which the metrics of a task ask for one by one."""
    aggregate: dict[str, float | None] = evaluate(task, records)["aggregate"]
    return aggregate

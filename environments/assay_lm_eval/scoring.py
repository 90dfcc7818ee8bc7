"""What the YAML files of the tasks name: the rows, the scores of an answer, and metrics over all answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from datasets import Dataset

from assay_client.tasks import COMPONENTS, SCORE
from assay_environments import PreparedRow, read_rows, score_responses
from assay_environments.evaluating import METRICS, evaluate, record_of

__all__ = ["Measured", "dataset", "evaluated", "process_results"]

PROMPTS = (["user"], ["system", "user"])
"""Roles of the messages that the harness can send: a task has a description, the system message, and a text."""


class Measured(float):
    """A metric of one answer, NaN if it has none, with what the metric over all answers is computed from."""

    metric: str
    task: str
    record: bytes


def dataset(
    rows: str | None = None,
    split: str = "test",
    task: str | None = None,
    type: str | None = None,
    level: str | int | None = None,
    **_others: Any,
) -> dict[str, Dataset]:
    """Return the rows of a task; raises ValueError if there are none, or naming a row with an unsupported prompt.

    rows: path of the rows, by default in ASSAY_ROWS. It and `split` may come from `--metadata`, which has more.
    """
    level = None if level is None else str(level)
    chosen = read_rows(rows, split, task=task, type=type, level=level)
    if not chosen:
        wanted = ", ".join(f"{name} {value}" for name, value in (("type", type), ("level", level)) if value is not None)
        found = Counter(row.columns.get("type", "no type") for row in read_rows(rows, split, task=task))
        there = ", ".join(f"{count} of {name}" for name, count in found.items()) or "none"
        raise ValueError(f"no rows of task {task} with {wanted or 'any type'}: by type, there are {there}")
    return {"test": Dataset.from_list([document_of(row) for row in chosen])}


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
    components = COMPONENTS if row.task == SCORE else ()  # those of other tasks have metrics' names, over all answers
    values = {"reward": scored.reward, "passed": scored.passed}
    return values | {name: scored.components[name] for name in components} | measured(row, response)


def measured(row: PreparedRow, response: str) -> dict[str, float]:
    """Return the metrics that `assay evaluate` has of an answer."""
    record = record_of(row, response)
    found = evaluate(row.task, [record])["per_record"]
    values: dict[str, float] = {}
    for metric in METRICS[row.task]:
        (value,) = found.get(metric, [None])
        values[metric] = one = Measured("nan" if value is None else value)
        one.metric, one.task, one.record = metric, row.task, record
    return values


def evaluated(values: Sequence[Measured]) -> float:
    """Return the metric over all answers, as `assay evaluate` computes it; NaN if it has no value."""
    value = aggregate_of(values[0].task, tuple(one.record for one in values))[values[0].metric]
    return float("nan") if value is None else float(value)


@lru_cache(maxsize=1)
def aggregate_of(task: str, records: tuple[bytes, ...]) -> dict[str, float | None]:
    """Return all metrics of these records, which the metrics of a task ask for one by one."""
    aggregate: dict[str, float | None] = evaluate(task, records)["aggregate"]
    return aggregate

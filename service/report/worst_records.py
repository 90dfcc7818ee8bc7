"""The records with the lowest values, for a look at what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..evaluate.task import Metric
from ..records.answers import record_id
from .evaluated_file import EvaluatedFile, formatted
from .rendering import clipped
from .tables import NOTHING

__all__ = ["WorstRecord", "mean_ranks", "worst_records"]

MAX_WORST = 10
MAX_TEXT = 4_000
"""Characters that are shown of a text of a record."""

MAX_ID = 60


class WorstRecord(NamedTuple):
    """One record: its location, id and groups, the value of each metric, and its texts by field."""

    location: str
    name: str
    values: list[str]
    texts: list[tuple[str, str]]


def worst_records(evaluated: EvaluatedFile, ranks: np.ndarray, name: str) -> tuple[list[str], list[WorstRecord]]:
    """Return the headings of the metrics, and the records with the lowest ranks (see `mean_ranks`), lowest first.

    Records with the best values only are left out.
    """
    shown = [entry for entry in evaluated.metrics if entry[0] in evaluated.result.per_record]
    order = [row for row in np.argsort(ranks, kind="stable").tolist() if ranks[row] < 1.0]
    found = []
    for row in order[:MAX_WORST]:
        record, location = evaluated.answers.records[row], evaluated.answers.locations[row]
        columns = ((metric, evaluated.result.per_record[key][row]) for key, metric, _ in shown)
        values = [NOTHING if np.isnan(value) else formatted(metric, value) for metric, value in columns]
        labels = [f"{field} {evaluated.result.groups[field][row]}" for field in evaluated.fields()]
        title = ", ".join(filter(None, [record_id(record)[:MAX_ID], *labels]))
        found.append(WorstRecord(location.within(name), title, values, texts_of(evaluated, record)))
    return [heading for _, _, heading in shown], found


def mean_ranks(evaluated: EvaluatedFile) -> np.ndarray:
    """Return float64 (n,): the mean of the metrics of each record; NaN for one without values.

    Each metric counts from 0 at its worst value to 1 at its best.
    """
    columns = [
        normalized(metric, column)
        for metric in evaluated.task.metrics
        if (column := evaluated.result.per_record.get(metric.name)) is not None and metric.high is not None
    ]
    if not columns:
        return np.full(len(evaluated.answers.records), np.nan)
    values = np.array(columns)
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, values, 0.0).sum(axis=0) / present.sum(axis=0))


def normalized(metric: Metric, column: np.ndarray) -> np.ndarray:
    """Return the values of a metric with a maximum, 0 at the worst and 1 at the best.

    Negative values of a correlation count as 0, which is what responses without any structure have.
    """
    low, high = max(metric.low or 0.0, 0.0), metric.high or 1.0
    values = np.clip((column - low) / (high - low), 0.0, 1.0)
    return 1.0 - values if metric.less_is_better else values


def texts_of(evaluated: EvaluatedFile, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and texts of the answer and of the other fields that the task reads."""
    task = evaluated.task
    names = [task.response, *(name for name in task.record.model_fields if name != task.response)]
    grouped = {*evaluated.result.by, "id"}
    found = [(name, record[name]) for name in names if record.get(name) not in (None, "") and name not in grouped]
    return [(name, clipped(value if isinstance(value, str) else as_json(value), MAX_TEXT)) for name, value in found]


def as_json(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()

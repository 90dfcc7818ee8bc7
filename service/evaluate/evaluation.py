"""An evaluation from records to the shape in which every face gives it: per record, aggregated, and by groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidRequest, Issue
from .registry import task_named
from .task import Advance, Evaluation, Failure, Task, ignore_progress

__all__ = ["Result", "evaluate", "evaluate_checked", "record_issues"]

UNKNOWN = "unknown"
"""The group of records that lack the field."""

Aggregate = dict[str, Any]
"""`count`, and every metric's value or None."""


@dataclass
class Result:
    """What an evaluation found.

    per_record: metric name to float64 (n,), NaN where a record has no value. aggregate: `count` and every metric, None
    without a value. by: field, then its value as text, then an aggregate. failed: in the order of the records.
    groups: field, then the value as text of each of the n records. counts: of how many records a value in `aggregate`
    is, where these are fewer than its `count`; counts_by: the same of `by`.
    """

    task: str
    per_record: dict[str, np.ndarray]
    aggregate: Aggregate
    by: dict[str, dict[str, Aggregate]]
    failed: list[Failure]
    unavailable: dict[str, str]
    groups: dict[str, list[str]]
    counts: dict[str, int]
    counts_by: dict[str, dict[str, dict[str, int]]]

    def document(self) -> dict[str, Any]:
        """The reply of `POST /v1/evaluate`, for orjson with OPT_SERIALIZE_NUMPY: NaN is written as null."""
        reply: dict[str, Any] = {
            "task": self.task,
            "per_record": self.per_record,
            "aggregate": self.aggregate,
            "by": self.by,
            "failed": [{"record": failure.record, "reason": failure.reason} for failure in self.failed],
        }
        return reply | ({"unavailable": self.unavailable} if self.unavailable else {})


def evaluate(task: str, records: Sequence[Mapping[str, Any]], **options: Any) -> Result:
    """Evaluate records, as `POST /v1/evaluate` does.

    >>> evaluate("score", [{"response": "…", "reference": "…"}], profile="thoth", by=["level"])   # doctest: +SKIP

    Raises InvalidRequest naming every unknown option and every record of the wrong shape, and NotInstalled where a
    metric needs what is not here.
    """
    chosen = task_named(task)
    if isinstance(records, (str, bytes)) or not isinstance(records, Sequence):
        raise InvalidRequest([Issue("records", "wrong_type", "a list of records is needed")])
    issues: list[Issue] = []
    try:
        checked = chosen.checked(options)
    except InvalidRequest as error:
        issues += error.issues
    issues += record_issues(chosen, records)
    if issues:
        raise InvalidRequest(issues)
    return evaluate_checked(chosen, records, checked)


def record_issues(task: Task, records: Sequence[Any]) -> list[Issue]:
    """Everything that keeps records from being the task's, in order."""
    return [
        Issue(f"records[{row}]{f'.{path}' if path else ''}", reason, detail)
        for row, record in enumerate(records)
        for path, reason, detail in task.validation_errors(record)
    ]


def evaluate_checked(
    task: Task, records: Sequence[Mapping[str, Any]], options: Any, advance: Advance = ignore_progress
) -> Result:
    """Evaluate records and options that are known to be the task's."""
    found = task.evaluate(records, options, advance)
    groups = {field: values_of(found, records, field) for field in options.by}
    rows = {field: rows_by(values) for field, values in groups.items()}
    everything = np.arange(len(records))
    by = {field: {value: aggregate_of(found, part) for value, part in parts.items()} for field, parts in rows.items()}
    counts_by = {
        field: {value: counts_of(found, part, by[field][value]) for value, part in parts.items()}
        for field, parts in rows.items()
    }
    aggregate = aggregate_of(found, everything)
    counts = counts_of(found, everything, aggregate)
    return Result(task.name, found.columns, aggregate, by, found.failed, found.unavailable, groups, counts, counts_by)


def aggregate_of(found: Evaluation, rows: np.ndarray) -> Aggregate:
    return {"count": len(rows), **found.aggregate(rows)}


def counts_of(found: Evaluation, rows: np.ndarray, aggregate: Aggregate) -> dict[str, int]:
    """The counts of the values in `aggregate` that are of fewer records than it has."""
    return {
        name: count
        for name, count in found.counts(rows).items()
        if count < len(rows) and aggregate.get(name) is not None
    }


def values_of(found: Evaluation, records: Sequence[Mapping[str, Any]], field: str) -> list[str]:
    """The value of `field` of every record as text; what the task derived_fields stands in for what is missing."""
    derived = found.derived.get(field)
    values = []
    for row, record in enumerate(records):
        value = record.get(field)
        values.append(text_of(derived[row] if value is None and derived is not None else value))
    return values


def rows_by(values: Sequence[str]) -> dict[str, np.ndarray]:
    """The int64 rows that share a value, in the order of the values."""
    rows: dict[str, list[int]] = {}
    for row, value in enumerate(values):
        rows.setdefault(value, []).append(row)
    return {value: np.array(rows[value]) for value in sorted(rows)}


def text_of(value: Any) -> str:
    """A value as the name of a group: text as it is, true and 2.0 as JSON writes them."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    return UNKNOWN

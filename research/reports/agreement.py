"""Agreement of metrics with labels of people or judges that the records carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...service.errors import InvalidRequest, Issue, did_you_mean
from ...service.records.fields import value_at
from ...service.tables.table import Cell, Row, Table
from ...service.tasks.evaluation import Result, by_number
from ...service.wording import plural


def average_ranks(values: np.ndarray) -> np.ndarray:
    """Return float64 (n,): the ranks of values without NaN from 1; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse])


def pearson(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the correlation of two columns without NaN; None if one of them has fewer than two different values."""
    if len(x) < 2 or (x == x[0]).all() or (y == y[0]).all():
        return None
    x, y = x / np.abs(x).max(), y / np.abs(y).max()  # squares of the largest numbers would overflow
    x, y = x - x.mean(), y - y.mean()
    product = np.sqrt((x @ x) * (y @ y))
    return float(np.clip(x @ y / product, -1.0, 1.0)) if product > 0.0 else None


def spearman(x: np.ndarray, y: np.ndarray) -> float | None:
    """Return the rank correlation of two columns without NaN; None if one has fewer than two different values."""
    return pearson(average_ranks(x), average_ranks(y))


COEFFICIENTS = {"Spearman": spearman, "Pearson": pearson}


class Labelled(NamedTuple):
    name: str
    records: Sequence[Mapping[str, Any]]
    result: Result


class Subset(NamedTuple):
    """Records of all models, of one, or of a group: their name, what distinguishes them, and a mask."""

    name: str
    labels: dict[str, str | None]
    rows: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """Correlations of every metric with every label.

    correlations: by label, the correlation of every metric in each subset of the records, as it stands in JSON.
    invalid: by label, the number of the model and the row of each record whose label is not a number.
    without: by label, the number of records that have none.
    """

    models: list[str]
    correlations: dict[str, list[tuple[str, list[dict[str, Any]]]]]
    invalid: dict[str, list[tuple[int, int]]]
    without: dict[str, int]

    def document(self) -> dict[str, Any]:
        return {
            "correlations": [
                entry for subsets in self.correlations.values() for _, entries in subsets for entry in entries
            ],
            "without_label": self.without,
            "invalid_labels": {
                label: [{"model": self.models[k], "record": row} for k, row in rows]
                for label, rows in self.invalid.items()
            },
        }

    def table(self, titles: Mapping[str, str]) -> Table:
        rows: list[Row] = []
        metrics: dict[str, None] = {}
        for label, subsets in self.correlations.items():
            for coefficient in COEFFICIENTS:
                for name, entries in subsets:
                    metrics |= dict.fromkeys(entry["metric"] for entry in entries)
                    n = max((entry["n"] for entry in entries), default=0)
                    rows.append(
                        [f"{label}, {coefficient}", name, n, *(cell(entry, coefficient, n) for entry in entries)]
                    )
        heads = ["", "records", "n", *(titles.get(metric, metric) for metric in metrics)]
        return Table(heads, rows, left=2, title="Agreement with labels", notes=list(self.notes()), groups=1)

    def notes(self) -> Iterator[str]:
        for label, count in self.without.items():
            if count:
                yield f"{label}: {plural(count, 'record')} without a label."
        for label, invalid in self.invalid.items():
            if invalid:
                yield f"{label}: the label of {plural(len(invalid), 'record')} is not a number."


def cell(entry: Mapping[str, Any], coefficient: str, n: int) -> Cell | None:
    value = entry[coefficient.lower()]
    return None if value is None else Cell(f"{value:z.3f}", n=f"{entry['n']:,}" if entry["n"] < n else "")


def agreement_of(models: Sequence[Labelled], labels: Sequence[str]) -> Agreement:
    """Correlate each metric with each label over all records, each model and each group; raises InvalidRequest."""
    subsets = list(subsets_of(models))
    columns = {
        name: np.concatenate(
            [model.result.per_record.get(name, np.full(len(model.records), np.nan)) for model in models]
        )
        for name in dict.fromkeys(name for model in models for name in model.result.per_record)
    }
    by_label = {label: [column_of(model.records, label) for model in models] for label in labels}
    if missing := [name for name, read in by_label.items() if all(np.isnan(v).all() and not bad for v, bad in read)]:
        fields = sorted({name for model in models for record in model.records for name in record})
        listed = f"fields: {', '.join(fields)}"
        sentences = [f"no record has the field {label!r}; {listed}{did_you_mean(label, fields)}" for label in missing]
        raise InvalidRequest([Issue("label", "missing_field", sentence) for sentence in sentences])
    agreement = Agreement([model.name for model in models], {}, {}, {})
    for label, read in by_label.items():
        values = np.concatenate([column for column, _ in read])
        agreement.invalid[label] = [(k, row) for k, (_, rows) in enumerate(read) for row in rows]
        agreement.without[label] = int(np.isnan(values).sum()) - len(agreement.invalid[label])
        agreement.correlations[label] = [
            (subset.name, [correlation(label, subset, name, column, values) for name, column in columns.items()])
            for subset in subsets
        ]
    return agreement


def subsets_of(models: Sequence[Labelled]) -> Iterator[Subset]:
    """Yield all records, each model's records if there are several, and the groups of fields with several values."""
    owner = np.repeat(np.arange(len(models)), [len(model.records) for model in models])
    nothing = {"model": None, "field": None, "value": None}
    yield Subset("all", {**nothing}, np.ones(len(owner), bool))
    for k, model in enumerate(models if len(models) > 1 else ()):
        yield Subset(model.name, {**nothing, "model": model.name}, owner == k)
    for field in models[0].result.groups:
        values = np.array([value for model in models for value in model.result.groups[field]], object)
        different = sorted(set(values.tolist()), key=by_number)
        for value in different if len(different) > 1 else ():
            yield Subset(f"{field} {value}", {**nothing, "field": field, "value": value}, np.asarray(values == value))


def correlation(label: str, subset: Subset, metric: str, column: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    rows = subset.rows & ~np.isnan(column) & ~np.isnan(values)
    x, y = column[rows], values[rows]
    coefficients = {name.lower(): function(x, y) for name, function in COEFFICIENTS.items()}
    return {"label": label, **subset.labels, "metric": metric, "n": len(x), **coefficients}


def column_of(records: Sequence[Mapping[str, Any]], label: str) -> tuple[np.ndarray, list[int]]:
    """Return the label of each record, NaN without one (true is 1), and the rows where it is not a number."""
    column, invalid = np.full(len(records), np.nan), []
    for row, record in enumerate(records):
        try:
            value = value_at(record, label)
        except KeyError:
            continue
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        if isinstance(value, (bool, int, float)) and abs(value) <= sys.float_info.max:
            column[row] = value
        else:
            invalid.append(row)
    return column, invalid

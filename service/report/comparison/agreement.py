"""Agreement of metrics with labels of people or judges that the records carry."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidRequest, Issue, did_you_mean
from ...evaluate.evaluation import Result, by_number
from ...explain.numbers import plural
from ...records.fields import value_at
from ..tables import NOTHING, TextTable
from .correlation import pearson, spearman

__all__ = ["Agreement", "Correlation", "Labelled", "agreement_of"]

COEFFICIENTS = {"Spearman": spearman, "Pearson": pearson}


class Labelled(NamedTuple):
    """The records of a model with their result."""

    name: str
    records: Sequence[Mapping[str, Any]]
    result: Result


class Correlation(NamedTuple):
    """How a metric goes with a label over the n records that have both: of all models, of one, or of a group."""

    label: str
    model: str | None
    field: str | None
    value: str | None
    metric: str
    n: int
    spearman: float | None
    pearson: float | None


class Part(NamedTuple):
    """Records of which correlations are computed: a mask over those of all models."""

    name: str
    model: str | None
    field: str | None
    value: str | None
    rows: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """Correlations of every metric with every label.

    found: by label, the correlations of each part of the records.
    invalid: by label, the number of the model and the row of each record whose label is not a number.
    without: by label, the number of records that have none.
    """

    models: list[str]
    found: dict[str, list[tuple[Part, list[Correlation]]]]
    invalid: dict[str, list[tuple[int, int]]]
    without: dict[str, int]

    def document(self) -> dict[str, Any]:
        """Return everything for a JSON document."""
        return {
            "correlations": [one._asdict() for parts in self.found.values() for _, several in parts for one in several],
            "without_label": self.without,
            "invalid_labels": {
                label: [{"model": self.models[k], "record": row} for k, row in rows]
                for label, rows in self.invalid.items()
            },
        }

    def table(self, titles: Mapping[str, str]) -> TextTable:
        """Return a row for each label, coefficient and part; `titles` are the headings of the metrics."""
        rows: list[list[str]] = []
        shown: dict[str, None] = {}
        for label, parts in self.found.items():
            for name in COEFFICIENTS:
                for part, several in parts:
                    shown |= dict.fromkeys(one.metric for one in several)
                    n = max((one.n for one in several), default=0)
                    cells = [cell(getattr(one, name.lower()), one.n, n) for one in several]
                    rows.append([f"{label}, {name}", part.name, f"{n:,}", *cells])
        heads = ["", "records", "n", *(titles.get(metric, metric) for metric in shown)]
        return TextTable(heads, rows, list(self.notes()), left=2, title="Agreement with labels")

    def notes(self) -> Iterator[str]:
        """Yield what a reader of the table has to know."""
        for label, count in self.without.items():
            if count:
                yield f"{label}: {plural(count, 'record')} without a label."
        for label, invalid in self.invalid.items():
            if invalid:
                yield f"{label}: the label of {plural(len(invalid), 'record')} is not a number."


def cell(value: float | None, n: int, of: int) -> str:
    """Format a coefficient, and the number of its records if that is not `of`."""
    if value is None:
        return NOTHING
    return f"{value:z.3f}" + (f" ({n:,})" if n < of else "")


def agreement_of(models: Sequence[Labelled], labels: Sequence[str]) -> Agreement:
    """Correlate each metric with each label over all records, those of each model, and those of each group.

    Raises InvalidRequest if no record has a label.
    """
    parts = list(parts_of(models))
    columns = {
        name: np.concatenate([one.result.per_record.get(name, np.full(len(one.records), np.nan)) for one in models])
        for name in dict.fromkeys(name for one in models for name in one.result.per_record)
    }
    read = {label: [column_of(one.records, label) for one in models] for label in labels}
    there = sorted({name for one in models for record in one.records for name in record})
    missing = [label for label, several in read.items() if all(np.isnan(v).all() and not bad for v, bad in several)]
    if missing:
        known = f"fields: {', '.join(there)}"
        sentences = [f"no record has the field {label!r}; {known}{did_you_mean(label, there)}" for label in missing]
        raise InvalidRequest([Issue("label", "missing_field", sentence) for sentence in sentences])
    found: dict[str, list[tuple[Part, list[Correlation]]]] = {}
    invalid: dict[str, list[tuple[int, int]]] = {}
    without: dict[str, int] = {}
    for label, several in read.items():
        values = np.concatenate([column for column, _ in several])
        invalid[label] = [(k, row) for k, (_, rows) in enumerate(several) for row in rows]
        without[label] = int(np.isnan(values).sum()) - len(invalid[label])
        found[label] = [
            (part, [correlation(label, part, name, columns[name], values) for name in columns]) for part in parts
        ]
    return Agreement([one.name for one in models], found, invalid, without)


def parts_of(models: Sequence[Labelled]) -> Iterator[Part]:
    """Yield all records, those of each model if there are several, and the groups of fields with several values."""
    sizes = [len(one.records) for one in models]
    owner = np.repeat(np.arange(len(models)), sizes)
    yield Part("all", None, None, None, np.ones(len(owner), bool))
    for k, one in enumerate(models if len(models) > 1 else ()):
        yield Part(one.name, one.name, None, None, owner == k)
    for field in models[0].result.groups:
        values = np.array([value for one in models for value in one.result.groups[field]], object)
        different = sorted(set(values.tolist()), key=by_number)
        for value in different if len(different) > 1 else ():
            yield Part(f"{field} {value}", None, field, value, np.asarray(values == value))


def correlation(label: str, part: Part, metric: str, column: np.ndarray, values: np.ndarray) -> Correlation:
    rows = part.rows & ~np.isnan(column) & ~np.isnan(values)
    x, y = column[rows], values[rows]
    return Correlation(label, part.model, part.field, part.value, metric, len(x), spearman(x, y), pearson(x, y))


def column_of(records: Sequence[Mapping[str, Any]], label: str) -> tuple[np.ndarray, list[int]]:
    """Return the label of each record, NaN if it has none, and the rows where it is something else than a number.

    A dotted name is a path into objects; true is 1 and false 0.
    """
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

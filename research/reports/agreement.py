"""Agreement of metrics with labels of people or judges, and of a judge with people or other judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...service.errors import InvalidRequest, Issue, did_you_mean
from ...service.tables.table import Cell, Row, Table
from ...service.wording import plural
from .coefficients import MIN_CORRELATED, pearson, permutation_p, shown_p, spearman, student_p
from .inference import notes_on_correlations
from .labels import Labelled, Labels, Subset, are_different, labels_in, numbers_by_id, subsets_of
from .raters import Ratings, ratings_of

COEFFICIENTS = {"Spearman": spearman, "Pearson": pearson}
SHOWN = {"Spearman": "spearman", "Spearman p-value": "p", "Pearson": "pearson"}


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
    raters: Ratings | None = None

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
            "raters": self.raters.document() if self.raters else [],
        }

    def tables(self, titles: Mapping[str, str]) -> list[Table]:
        of_raters = [self.raters.table()] if self.raters else []
        return [*([self.table(titles)] if self.correlations else []), *of_raters]

    def table(self, titles: Mapping[str, str]) -> Table:
        rows: list[Row] = []
        metrics: dict[str, None] = {}
        for label, subsets in self.correlations.items():
            for coefficient, key in SHOWN.items():
                for name, entries in subsets:
                    metrics |= dict.fromkeys(entry["metric"] for entry in entries)
                    n = max((entry["n"] for entry in entries), default=0)
                    rows.append([f"{label}, {coefficient}", name, n, *(cell(entry, key, n) for entry in entries)])
        heads = ["", "records", "n", *(titles.get(metric, metric) for metric in metrics)]
        return Table(heads, rows, left=2, title="Agreement with labels", notes=list(self.notes()), groups=1)

    def notes(self) -> Iterator[str]:
        for label, count in self.without.items():
            if count:
                yield f"{label}: {plural(count, 'record')} without a label."
        for label, invalid in self.invalid.items():
            if invalid:
                yield f"{label}: the label of {plural(len(invalid), 'record')} is not a number."
        entries = (entry for subsets in self.correlations.values() for _, of_subset in subsets for entry in of_subset)
        yield from notes_on_correlations((entry["n"] for entry in entries), "record")


def cell(entry: Mapping[str, Any], key: str, n: int) -> Cell | None:
    value = entry[key]
    if value is None:
        return None
    return Cell(shown_p(value) if key == "p" else f"{value:z.3f}", n=f"{entry['n']:,}" if entry["n"] < n else "")


def agreement_of(
    models: Sequence[Labelled],
    fields: Sequence[str],
    labels: Sequence[Labels] = (),
    resamples: int = 9_999,
    seed: int = 0,
) -> Agreement | None:
    """Correlate each metric with each label over all records, each model and each group, and compare the raters.

    fields: names of fields of the records with labels. labels: labels from a file. resamples, seed: of the intervals
    and p-values. None without labels. Raises InvalidRequest if no record has a field.
    """
    subsets = list(subsets_of(models))
    n = sum(len(model.records) for model in models)
    in_records = {name: labels_in(models, name) for name in fields}
    raise_for_absent(models, [name for name, (rater, bad) in in_records.items() if not rater.values and not bad])
    numbers = numbers_by_id(models)
    raters = [*(rater for rater, _ in in_records.values()), *labels]
    if not raters:
        return None
    if repeated := [name for name, count in Counter(rater.name for rater in raters).items() if count > 1]:
        detail = f"several raters are called {', '.join(repeated)}: rename the field, or the rater in the file"
        raise InvalidRequest([Issue("label-field", "duplicate_label", detail)])
    columns = {
        name: np.concatenate(
            [model.result.per_record.get(name, np.full(len(model.records), np.nan)) for model in models]
        )
        for name in dict.fromkeys(name for model in models for name in model.result.per_record)
    }
    invalid = {name: rows for name, (_, rows) in in_records.items()}
    agreement = Agreement([model.name for model in models], {}, invalid, {})
    for rater in raters:
        values = rater.column(n)
        labelled = len({row for row, _ in rater.values})
        agreement.without[rater.name] = n - labelled - len(invalid.get(rater.name, ()))
        if rater.own:
            agreement.correlations[rater.name] = [
                (subset.name, list(correlations(rater.name, subset, columns, values, numbers, resamples, seed)))
                for subset in subsets
            ]
    return replace(agreement, raters=ratings_of(models, raters, subsets, resamples, seed))


def raise_for_absent(models: Sequence[Labelled], missing: Sequence[str]) -> None:
    if not missing:
        return
    fields = sorted({name for model in models for record in model.records for name in record})
    listed = f"fields: {', '.join(fields)}"
    sentences = [f"no record has the field {label!r}; {listed}{did_you_mean(label, fields)}" for label in missing]
    raise InvalidRequest([Issue("label-field", "missing_field", sentence) for sentence in sentences])


def correlations(
    label: str,
    subset: Subset,
    columns: Mapping[str, np.ndarray],
    values: np.ndarray,
    numbers: np.ndarray,
    resamples: int,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yield the correlations of each metric, with p-values if the `numbers` of the records by their ids all differ.

    Metrics with values for the same records share the permutations.
    """
    rows = {name: subset.rows & ~np.isnan(column) & ~np.isnan(values) for name, column in columns.items()}
    by_rows: dict[bytes, list[str]] = {}
    for name in columns:
        by_rows.setdefault(rows[name].tobytes(), []).append(name)
    p: dict[str, float] = {}
    for names in by_rows.values():
        inside = rows[names[0]]
        if inside.sum() >= MIN_CORRELATED and are_different(numbers[inside]):
            p_of_models = permutation_p(
                np.array([columns[name][inside] for name in names]), values[inside], resamples, seed
            )
            p |= zip(names, p_of_models.tolist(), strict=True)
    for name, column in columns.items():
        x, y = column[rows[name]], values[rows[name]]
        coefficients = {title.lower(): function(x, y) for title, function in COEFFICIENTS.items()}
        rho = coefficients["spearman"]
        p_values: dict[str, float | None] = {"p": None, "p_student": None}
        if rho is not None and name in p:
            p_values = {"p": p[name], "p_student": student_p(rho, len(x))}
        yield {"label": label, **subset.labels, "metric": name, "n": len(x), **coefficients, **p_values}

"""Agreement of a judge with people or other judges, and of these with each other, over what several have labelled.

The agreement rate is BioProBench's (appendix G.7), Spearman's ρ with a p-value as in its table 8. Intervals are
percentiles of the bootstrap over records: those with the same id are drawn together, with all their labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from ...service.tables.table import Row, Table
from ...service.tasks.evaluation import task_named
from ...service.wording import first_n, plural
from .coefficients import (
    MAX_PERMUTED,
    MIN_CORRELATED,
    agreement_rates,
    cohen_kappas,
    fleiss_kappas,
    permutation_p,
    shown_p,
    spearmans,
    student_p,
)
from .differences import number_of, weights
from .inference import CONFIDENCE, Interval, interval_of, notes_on_intervals
from .labels import Labelled, Labels, Subset, Unit, are_different, numbers_by_id

JUDGE = "LLM judge"
MAX_CATEGORIES = 10
MAX_COUNTED = 256  # different rows of labels of a unit
MAX_NAMED = 4  # raters that a row of the table names

INTERVAL = f"{CONFIDENCE:.0%} interval"
RATE, COHEN, FLEISS, SPEARMAN = "Agreement rate", "Cohen's κ", "Fleiss' κ", "Spearman ρ"
KEYS = {RATE: "agreement_rate", COHEN: "cohen_kappa", FLEISS: "fleiss_kappa", SPEARMAN: "spearman"}


Coefficient = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Statistic(NamedTuple):
    """A statistic of raters over n units; the estimate is None if it is not defined, the interval if it has none."""

    raters: list[str]
    subset: Subset
    name: str
    n: int
    estimate: float | None
    interval: Interval | None
    p: float | None = None

    def document(self) -> dict[str, Any]:
        low, high = self.interval or (None, None)
        p_student = None if self.p is None or self.estimate is None else student_p(self.estimate, self.n)
        values = {"n": self.n, "estimate": self.estimate, "low": low, "high": high, "p": self.p, "p_student": p_student}
        return {"raters": self.raters, **self.subset.labels, "statistic": KEYS[self.name], **values}

    def row(self) -> Row:
        low_to_high = None if self.interval is None else " to ".join(map(self.shown, self.interval))
        estimate = None if self.estimate is None else self.shown(self.estimate)
        p = None if self.p is None else shown_p(self.p)
        return [first_n(self.raters, MAX_NAMED), self.subset.name, self.name, self.n, estimate, low_to_high, p]

    def shown(self, value: float) -> str:
        return f"{100 * value:z.2f}" if self.name == RATE else f"{value:z.3f}"


@dataclass(frozen=True)
class Ratings:
    """The units that are labelled: each rater's column and the judge's, float64 (n,), NaN without a label.

    records: int64 (n,), a number for the id of each unit's record. subsets: masks of the units.
    """

    records: np.ndarray
    raters: list[tuple[Labels, np.ndarray]]
    judge: np.ndarray | None
    subsets: list[Subset]
    resamples: int
    seed: int

    @cached_property
    def statistics(self) -> list[Statistic]:
        return list(self._statistics())

    def _statistics(self) -> Iterator[Statistic]:
        """Yield the statistics of each pair of raters who answer the same question, then of more than two."""
        judge = [] if self.judge is None else [(Labels(JUDGE), self.judge)]
        for (first, x), (second, y) in combinations([*judge, *self.raters], 2):
            if first.is_comparable(second):
                yield from self.of_pair([first.name, second.name], x, y)
        for group in self.groups():
            for some in (judge + group, group) if judge else (group,):
                if len(some) > 2 and all(is_categorical(column) for _, column in some):
                    yield from self.of_all([labels.name for labels, _ in some], [column for _, column in some])

    def groups(self) -> list[list[tuple[Labels, np.ndarray]]]:
        """Return the raters who answer the same question, for each question."""
        questions = dict.fromkeys(labels.question for labels, _ in self.raters if labels.question) or {"": None}
        return [[rater for rater in self.raters if rater[0].question in ("", name)] for name in questions]

    def of_pair(self, names: list[str], x: np.ndarray, y: np.ndarray) -> Iterator[Statistic]:
        of_categories = {RATE: agreement_rates, COHEN: cohen_kappas}
        functions = {**(of_categories if is_categorical(x) and is_categorical(y) else {}), SPEARMAN: spearmans}
        for subset in self.subsets:
            units = np.flatnonzero(subset.rows & ~np.isnan(x) & ~np.isnan(y))
            if not len(units):
                continue
            records, columns = self.records[units], np.column_stack([x[units], y[units]])
            for name, (estimate, interval) in self.estimated(functions, columns, records).items():
                p = None
                if name == SPEARMAN and estimate is not None and are_different(records):
                    p = float(permutation_p(columns[:, :1].T, columns[:, 1], self.resamples, self.seed)[0])
                yield Statistic(names, subset, name, len(units), estimate, interval, p)

    def of_all(self, names: list[str], columns: Sequence[np.ndarray]) -> Iterator[Statistic]:
        """Yield Fleiss' κ over the units with the most labels: it needs as many for each, of whichever raters."""
        labels = np.array(columns)
        categories = np.unique(labels[~np.isnan(labels)])
        counts = (labels[:, :, None] == categories).sum(axis=0).astype(float)
        sizes = counts.sum(axis=1)
        for subset in self.subsets:
            most = sizes[subset.rows].max(initial=0.0)
            units = np.flatnonzero(subset.rows & (sizes == most))
            if most < 2 or not len(units):
                continue
            of_units = self.estimated({FLEISS: fleiss_kappas}, counts[units], self.records[units])
            yield Statistic(names, subset, FLEISS, len(units), *of_units[FLEISS])

    def estimated(
        self, functions: Mapping[str, Coefficient], rows: np.ndarray, records: np.ndarray
    ) -> dict[str, tuple[float | None, Interval | None]]:
        """Return coefficients of the rows of units, float64 (n, k), and their intervals; None for the undefined ones.

        A coefficient depends on how often each different row occurs, so that few of them are counted once.
        """
        different, codes = np.unique(rows, axis=0, return_inverse=True)
        is_short = len(different) <= MAX_COUNTED
        counted = np.eye(len(different))[codes.ravel()] if is_short else None
        rows = different if is_short else rows

        def values(times: np.ndarray) -> list[np.ndarray]:
            counts = times if counted is None else times @ counted
            return [function(rows, counts) for function in functions.values()]

        estimates = [float(value[0]) for value in values(np.ones((1, len(records))))]
        intervals: list[Interval | None] = [None] * len(estimates)
        if (units := number_of(records)) > 1:
            drawn = [values(times) for times in weights(records, self.resamples, self.seed)]
            intervals = [interval_of(np.concatenate(of_name), units) for of_name in zip(*drawn, strict=True)]
        return {
            name: (None, None) if np.isnan(estimate) else (estimate, interval)
            for name, estimate, interval in zip(functions, estimates, intervals, strict=True)
        }

    def document(self) -> list[dict[str, Any]]:
        return [statistic.document() for statistic in self.statistics]

    def table(self) -> Table:
        heads = ["raters", "records", "statistic", "n", "value", INTERVAL, "p-value"]
        rows = [statistic.row() for statistic in self.statistics]
        return Table(heads, rows, left=3, title="Agreement of raters", notes=list(self.notes()), groups=1)

    def notes(self) -> Iterator[str]:
        yield (
            f"{INTERVAL}: percentiles of the bootstrap over records ({self.resamples:,} resamples, seed {self.seed}). "
            f"p-value of {SPEARMAN}: two-sided, of the permutation test."
        )
        if any(statistic.p is not None and statistic.n > MAX_PERMUTED for statistic in self.statistics):
            yield f"p-value of more than {MAX_PERMUTED} labels: from Student's distribution."
        yield from notes_on_intervals(((each.n, each.interval) for each in self.statistics), "label")
        if any(statistic.interval is None for statistic in self.statistics):
            yield (
                "No interval: there is a single record, or the value is not defined in each resample. "
                f"No κ and no ρ: a rater has given one value only, or there are fewer than {MIN_CORRELATED} for ρ."
            )
        if self.judge is not None and (missing := int(np.isnan(self.judge).sum())):
            yield f"{JUDGE}: no verdict for {plural(missing, 'label')}."


def is_categorical(column: np.ndarray) -> bool:
    """Return whether the values are a few different whole numbers."""
    values = np.unique(column[~np.isnan(column)])
    return len(values) <= MAX_CATEGORIES and bool((values == np.round(values)).all())


def ratings_of(
    models: Sequence[Labelled],
    raters: Sequence[Labels],
    subsets: Sequence[Subset],
    resamples: int,
    seed: int,
) -> Ratings | None:
    """Return the labels of the raters and the verdicts of the task's judge; None if there are not two of them."""
    units = sorted({unit for labels in raters for unit in labels.values})
    judge = verdicts_on(units, models)
    if len(raters) + (judge is not None) < 2:
        return None
    rows = np.array([row for row, _ in units], np.int64)
    criteria = np.array([criterion for _, criterion in units], object)
    masks = [subset._replace(rows=subset.rows[rows]) for subset in subsets]
    different = sorted(set(criteria.tolist()))
    titles = {metric.name: metric.title for metric in task_named(models[0].result.task).metrics}
    if len(different) > 1 and not any(subset.labels["field"] == "criterion" for subset in subsets):
        for criterion in different:
            labels = {"model": None, "field": "criterion", "value": criterion}
            name = f"criterion {titles.get(criterion, criterion)}" if criterion else "no criterion"
            masks.append(Subset(name, labels, np.asarray(criteria == criterion)))
    columns = [(labels, np.array([labels.values.get(unit, np.nan) for unit in units])) for labels in raters]
    return Ratings(numbers_by_id(models)[rows], columns, judge, masks, resamples, seed)


def verdicts_on(units: Sequence[Unit], models: Sequence[Labelled]) -> np.ndarray | None:
    """Return float64 (n,): a judge's verdict on each unit, NaN without one; None if there is none at all."""
    whole, *criteria = models[0].judge_metrics or ("",)
    columns = {
        name: np.concatenate([m.result.per_record.get(name, np.full(len(m.records), np.nan)) for m in models])
        for name in {criterion if criterion in criteria else whole for _, criterion in units}
    }
    values = [columns[criterion if criterion in criteria else whole][row] for row, criterion in units]
    verdicts = np.array(values, float)
    return None if np.isnan(verdicts).all() else verdicts

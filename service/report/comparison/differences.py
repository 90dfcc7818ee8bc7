"""Differences of metrics between a model and the baseline over their pairs of records, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...evaluate.task import Evaluation, mean_of
from .bootstrap import Interval, interval_of, means_of_differences, means_of_means, statistics

__all__ = ["Difference", "Draws", "Sample", "differences"]

Column = tuple[np.ndarray, np.ndarray]
"""The values of pairs: those of the model, and those of the baseline."""


class Sample(NamedTuple):
    """One model's side of the pairs: its evaluation, and the int64 rows of its records.

    samples: all rows of each pair, int64, if a pair has several; then its value is the mean over them.
    """

    found: Evaluation
    rows: np.ndarray
    samples: Sequence[np.ndarray] | None = None

    def records(self, pairs: np.ndarray | None = None) -> np.ndarray:
        """Return the rows of all records, or of those of some pairs, which may be named repeatedly."""
        if self.samples is None:
            return self.rows if pairs is None else self.rows[pairs]
        numbers = range(len(self.samples)) if pairs is None else pairs.tolist()
        return np.concatenate([self.samples[number] for number in numbers])

    def values(self, column: np.ndarray) -> np.ndarray:
        """Return the value of each pair: the mean of a column over its records that have a value."""
        if self.samples is None:
            values: np.ndarray = column[self.rows]
            return values
        means = [mean_of(column[rows]) for rows in self.samples]
        return np.array([math.nan if mean is None else mean for mean in means])

    def corpus(self, rows: np.ndarray) -> Mapping[str, float | None]:
        """Return the values that are not means over records, of int64 rows."""
        return self.found.corpus(rows) if self.found.corpus is not None else {}

    def value(self, name: str) -> float | None:
        """Return the value of a metric over the pairs."""
        if self.samples is not None and self.is_mean_of_means(name):
            means = [mean_of(self.values(column)) for column in self.found.over[name]]
            known = [mean for mean in means if mean is not None]
            return sum(known) / len(known) if len(known) == len(means) else None
        corpus = self.corpus(self.records())
        column = self.found.columns.get(name)
        return corpus[name] if name in corpus else None if column is None else mean_of(self.values(column))

    def count(self, name: str) -> int:
        """Return the number of records that a value is based on: of several columns, that of the shortest."""
        columns = self.found.over.get(name) or [self.found.columns[name]]
        return min(int((~np.isnan(self.values(column))).sum()) for column in columns)

    def column(self, name: str) -> np.ndarray | None:
        """Return the column whose mean a metric is, over the pairs; None if it is not a mean over records."""
        own = self.found.columns.get(name)
        columns = self.found.over.get(name, []) if own is None else [own]
        return self.values(columns[0]) if len(columns) == 1 and self._is_mean_of(name, columns) else None

    def is_mean_of_means(self, name: str) -> bool:
        """Return whether a metric is the mean of the means of the columns that it is computed from, as AVG is."""
        return bool(self.found.over.get(name)) and self._is_mean_of(name, self.found.over[name])

    def _is_mean_of(self, name: str, columns: Sequence[np.ndarray]) -> bool:
        """Compare over all pairs and over parts of them, where values that are equal by chance differ."""
        every = self.records()
        for rows in (every, every[::2], every[: len(every) // 2]):
            corpus = self.corpus(rows)
            means = [mean_of(column[rows]) for column in columns]
            known = [mean for mean in means if mean is not None]
            if name in corpus and len(known) == len(means) and not same(corpus[name], sum(known) / len(known)):
                return False
        return True


class Draws(NamedTuple):
    """How resamples are drawn: the question of each pair as int64 (pairs,), and their number and seed."""

    questions: np.ndarray
    resamples: int
    seed: int


class Difference(NamedTuple):
    """The value of a model less that of the baseline, over the n pairs where both have one.

    `interval` is None if less than two pairs or questions are there to draw, or if the value is undefined for a
    resample.
    """

    metric: str
    n: int
    difference: float
    interval: Interval | None

    def document(self) -> dict[str, Any]:
        """Return the difference for a JSON document."""
        low, high, p = self.interval or (None, None, None)
        return {"metric": self.metric, "n": self.n, "difference": self.difference, "low": low, "high": high, "p": p}


def differences(names: Iterable[str], model: Sample, baseline: Sample, draws: Draws) -> Iterator[Difference]:
    """Yield the difference of each metric that both have over the pairs, in the order of the names.

    A mean over records is compared over the pairs where both records have a value. Any other value is computed for
    both over all pairs, and again over each resample.
    """
    found: dict[str, Difference | None] = {}
    means: dict[str, Column] = {}
    others = []
    for name in names:
        found[name] = None
        if model.value(name) is None or baseline.value(name) is None:
            continue
        columns = model.column(name), baseline.column(name)
        if columns[0] is not None and columns[1] is not None:
            means[name] = columns[0], columns[1]
        else:
            others.append(name)
    found |= {one.metric: one for one in of_means(means, draws)}
    averages = [name for name in others if model.is_mean_of_means(name) and baseline.is_mean_of_means(name)]
    found |= {name: of_mean_of_means(name, model, baseline, draws) for name in averages}
    rest = [name for name in others if name not in averages]
    found |= {one.metric: one for one in of_any(rest, model, baseline, draws)}
    return (one for one in found.values() if one is not None)


def of_means(columns: Mapping[str, Column], draws: Draws) -> Iterator[Difference]:
    """Yield the mean differences; metrics with values for the same pairs share the resamples."""
    questions, resamples, seed = draws
    by_pairs: dict[bytes, list[tuple[str, np.ndarray]]] = {}
    for name, (values, baseline) in columns.items():
        there = ~(np.isnan(values) | np.isnan(baseline))
        if there.any():
            by_pairs.setdefault(there.tobytes(), []).append((name, (values - baseline)[there]))
    for both, several in by_pairs.items():
        kept = questions[np.frombuffer(both, bool)]
        matrix = np.column_stack([column for _, column in several])
        n = len(matrix)
        drawn = means_of_differences(matrix, kept, resamples, seed) if several_in(kept) else None
        for k, (name, column) in enumerate(several):
            interval = interval_of(drawn[:, k]) if drawn is not None else None
            yield Difference(name, n, float(column.mean()), interval)


def of_mean_of_means(name: str, model: Sample, baseline: Sample, draws: Draws) -> Difference:
    """Return the difference of a mean of means, such as AVG."""
    n = min(model.count(name), baseline.count(name))
    drawn = [
        means_of_means([one.values(column) for column in one.found.over[name]], *draws) for one in (model, baseline)
    ]
    interval = interval_of(drawn[0] - drawn[1]) if several_in(draws.questions) else None
    return Difference(name, n, difference_of(model.value(name), baseline.value(name)), interval)


def of_any(names: list[str], model: Sample, baseline: Sample, draws: Draws) -> Iterator[Difference]:
    """Yield the differences of values that are computed again for each resample, such as F1."""

    def statistic(rows: np.ndarray) -> list[float]:
        values, others = model.corpus(model.records(rows)), baseline.corpus(baseline.records(rows))
        return [difference_of(values[name], others[name]) for name in names]

    drawn = statistics(statistic, *draws) if names and several_in(draws.questions) else None
    for k, name in enumerate(names):
        n = min(model.count(name), baseline.count(name))
        interval = interval_of(drawn[:, k]) if drawn is not None else None
        yield Difference(name, n, difference_of(model.value(name), baseline.value(name)), interval)


def difference_of(value: float | None, baseline: float | None) -> float:
    """Return the difference; NaN if one is undefined."""
    return math.nan if value is None or baseline is None else value - baseline


def several_in(questions: np.ndarray) -> bool:
    """Return whether there is more than one question to draw."""
    return len(questions) > 1 and bool((questions != questions[0]).any())


def same(value: float | None, other: float | None) -> bool:
    """Return whether two values are equal but for rounding, which depends on the order of summation."""
    if value is None or other is None:
        return value is other
    return math.isclose(value, other, rel_tol=1e-12, abs_tol=1e-15)

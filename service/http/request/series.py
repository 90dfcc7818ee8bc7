"""Series and histograms that cost little to count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from prometheus_client.metrics_core import Metric

CUMULATIVE = frozenset({"counter", "histogram", "summary"})
"""Types of families whose values only grow, and stay valid after their process has ended."""

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels, sorted by name."""


class Family(NamedTuple):
    """The contents of the lines HELP and TYPE, by the names and types of prometheus_client."""

    name: str
    documentation: str
    kind: str


class Series(NamedTuple):
    """One line of an exposition without its value."""

    family: str
    sample: str
    labels: Labels


class SeriesTable:
    """Series and their values, which only grow in number. Not thread-safe: for the event loop only.

    A series keeps its number, so that a copy of `values` and the first entries of `families` and `series` are a
    consistent snapshot, which other threads may read.
    """

    def __init__(self) -> None:
        self.families: list[Family] = []
        self.series: list[Series] = []
        self._families: dict[str, Family] = {}
        self._numbers: dict[Series, int] = {}
        self._values = np.zeros(256)

    @property
    def values(self) -> np.ndarray:
        """The values, float64, by the numbers of their series; a view, valid until a series is added."""
        return self._values[: len(self.series)]

    def add_family(self, name: str, documentation: str, kind: str) -> str:
        if name not in self._families:
            self._families[name] = Family(name, documentation, kind)
            self.families.append(self._families[name])
        return name

    def family(self, name: str) -> Family:
        return self._families[name]

    def add(self, series: Iterable[Series]) -> int:
        """Add series, all of them new, with the value 0; return the number of the first one."""
        start = len(self.series)
        self.series += series
        self._numbers.update((self.series[k], k) for k in range(start, len(self.series)))
        if len(self.series) > len(self._values):
            grown = np.zeros(2 * len(self.series))
            grown[:start] = self._values[:start]
            self._values = grown
        return start

    def number(self, series: Series) -> int:
        """Return the number of a series; add it if it is new."""
        number = self._numbers.get(series)
        return self.add([series]) if number is None else number

    def put(self, metrics: Iterable[Metric]) -> None:
        for metric in metrics:
            self.add_family(metric.name, metric.documentation, metric.type)
            for name, labels, value, *_ in metric.samples:
                number = self.number(Series(metric.name, name, tuple(sorted(labels.items()))))
                self._values[number] = value


MAX_WAITING = 1024
"""Single values that are buffered before they are counted."""


def histogram_series(family: str, bounds: Sequence[float], labels: Labels) -> list[Series]:
    """Return the series of a histogram: a bucket for each bound and for infinity, the count, and the sum."""
    edges = [*map(str, bounds), "+Inf"]
    buckets = [Series(family, f"{family}_bucket", tuple(sorted([*labels, ("le", edge)]))) for edge in edges]
    return [*buckets, Series(family, f"{family}_count", labels), Series(family, f"{family}_sum", labels)]


class Histogram:
    """Observations counted by upper bound. Not thread-safe: for the event loop only.

    Single values are buffered until there are many, or until a scrape, and counted as one column with few NumPy calls.
    (prometheus_client's own class takes no columns, and uses a lock and a search per value.)
    """

    def __init__(
        self, table: SeriesTable, name: str, documentation: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._table, self._labels, self._bounds = table, tuple(labels), tuple(bounds)
        self._family = table.add_family(name, documentation, "histogram")
        self._edges = np.array(bounds)
        self._waiting: dict[tuple[str, ...], list[float]] = {}
        self._starts: dict[tuple[str, ...], int] = {}

    def observe(self, value: float, *labels: str) -> None:
        waiting = self._waiting.get(labels)
        if waiting is None:
            waiting = self._waiting[labels] = []
        waiting.append(value)
        if len(waiting) == MAX_WAITING:
            self.observe_column(np.array(waiting), *labels)
            waiting.clear()

    def observe_column(self, values: np.ndarray, *labels: str) -> None:
        start, buckets = self._start(labels), len(self._bounds) + 1
        counts = np.bincount(self._edges.searchsorted(values), minlength=buckets)
        totals = self._table.values
        totals[start : start + buckets] += counts.cumsum()
        totals[start + buckets] += len(values)
        totals[start + buckets + 1] += values.sum()

    def count_waiting(self) -> None:
        for labels, waiting in self._waiting.items():
            if waiting:
                self.observe_column(np.array(waiting), *labels)
                waiting.clear()

    def _start(self, labels: tuple[str, ...]) -> int:
        start = self._starts.get(labels)
        if start is None:
            pairs = tuple(sorted(zip(self._labels, labels, strict=True)))
            start = self._starts[labels] = self._table.add(histogram_series(self._family, self._bounds, pairs))
        return start

"""A histogram for columns of values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from .series import Labels, Series, SeriesTable

__all__ = ["MAX_WAITING", "Histogram", "numbered"]

Key = TypeVar("Key", bound=Hashable)
MAX_WAITING = 1024
"""Single values that are buffered before they are counted."""


def numbered(keys: Sequence[Key]) -> tuple[list[Key], np.ndarray]:
    """Return the distinct keys, and the position of each key among them, int64."""
    numbers: defaultdict[Key, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    column = np.fromiter(map(numbers.__getitem__, keys), np.int64, len(keys))
    return list(numbers), column


def histogram_series(family: str, bounds: Sequence[float], labels: Labels) -> list[Series]:
    """Return the series of a histogram: a bucket for each bound and for infinity, the count, and the sum."""
    edges = [*map(str, bounds), "+Inf"]
    buckets = [Series(family, f"{family}_bucket", tuple(sorted([*labels, ("le", edge)]))) for edge in edges]
    return [*buckets, Series(family, f"{family}_count", labels), Series(family, f"{family}_sum", labels)]


class Histogram:
    """Observations counted by upper bound. Not thread-safe: for the event loop only.

    Single values are buffered until there are many, or until a scrape, and counted as one column with few NumPy calls,
    whatever the number of label values. (prometheus_client's own class takes no columns, and uses a lock and a search
    per value.)
    """

    def __init__(
        self, table: SeriesTable, name: str, documentation: str, bounds: Sequence[float], labels: Sequence[str] = ()
    ) -> None:
        self._table, self._labels, self._bounds = table, tuple(labels), tuple(bounds)
        self._family = table.add_family(name, documentation, "histogram")
        self._edges = np.array(bounds)
        self._width = len(bounds) + 3
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
        buffered = {labels: waiting for labels, waiting in self._waiting.items() if waiting}
        if buffered:
            numbers = np.repeat(np.arange(len(buffered)), [len(waiting) for waiting in buffered.values()])
            self.observe_rows(np.concatenate([*buffered.values()]), [*buffered], numbers)
            for waiting in buffered.values():
                waiting.clear()

    def observe_rows(self, values: np.ndarray, labels: Sequence[tuple[str, ...]], numbers: np.ndarray) -> None:
        """Count a float64 column of values; `labels` are distinct, and `numbers` int64 positions in `labels`."""
        starts = np.fromiter(map(self._start, labels), np.int64, len(labels))
        buckets, m = len(self._bounds) + 1, len(starts)
        added = np.empty((m, self._width))
        flat = np.bincount(numbers * buckets + np.searchsorted(self._edges, values), minlength=m * buckets)
        np.cumsum(flat.reshape(m, buckets), axis=1, out=added[:, :buckets])
        added[:, -2] = np.bincount(numbers, minlength=m)
        added[:, -1] = np.bincount(numbers, values, m)
        self._table.values[starts[:, None] + np.arange(self._width)] += added

    def _start(self, labels: tuple[str, ...]) -> int:
        start = self._starts.get(labels)
        if start is None:
            pairs = tuple(sorted(zip(self._labels, labels, strict=True)))
            start = self._starts[labels] = self._table.add(histogram_series(self._family, self._bounds, pairs))
        return start

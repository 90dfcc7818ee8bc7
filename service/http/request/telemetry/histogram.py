"""A histogram for columns of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from prometheus_client.metrics_core import HistogramMetricFamily, Metric

__all__ = ["MAX_WAITING", "Histogram"]

MAX_WAITING = 1024
"""Single values that are buffered before they are counted."""


class Histogram:
    """Observations counted by upper bound. Not thread-safe: for the event loop only.

    Single values are buffered until there are many, or until a scrape, and counted as one column with few NumPy calls.
    (prometheus_client's own class takes no columns, and uses a lock and a search per value.)
    """

    def __init__(self, name: str, documentation: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._bounds = tuple(bounds)
        self._edges = np.array(bounds)
        self._waiting: dict[tuple[str, ...], list[float]] = {}
        self._counts: dict[tuple[str, ...], np.ndarray] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        waiting = self._waiting.get(labels)
        if waiting is None:
            waiting = self._waiting[labels] = []
        waiting.append(value)
        if len(waiting) == MAX_WAITING:
            self._count(labels)

    def observe_column(self, values: np.ndarray, *labels: str) -> None:
        """Count every value of a float64 column."""
        added = np.bincount(np.searchsorted(self._edges, values), minlength=len(self._bounds) + 1)
        self._counts[labels] = self._counts.get(labels, 0) + added
        self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def _count(self, labels: tuple[str, ...]) -> None:
        waiting = self._waiting[labels]
        self.observe_column(np.array(waiting), *labels)
        waiting.clear()

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram as a metric of prometheus_client."""
        for labels, waiting in self._waiting.items():
            if waiting:
                self._count(labels)
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(str, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            family.add_metric(labels, list(zip(names, np.cumsum(counts).tolist(), strict=True)), self._sums[labels])
        yield family

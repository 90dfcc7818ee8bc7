"""The series of one process or of a whole service: names and labels in one list, values in one array."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from prometheus_client.metrics_core import Metric

__all__ = ["CUMULATIVE", "Family", "Labels", "Series", "SeriesTable"]

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

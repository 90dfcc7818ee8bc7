"""Merges the metrics of several processes, also after their end, from the changes that they report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

import numpy as np
from prometheus_client.metrics_core import Metric

from ..runs import RunNames
from .series import CUMULATIVE, Series, SeriesTable

__all__ = ["CHUNK", "Differences", "MergedMetrics", "WorkerMetrics"]

CHUNK = 500
"""Series in a message, so that neither process spends more than some milliseconds with one."""

MAX_GAUGES = frozenset({"assay_ready", "assay_draining", "assay_compiled_signatures"})
MIN_GAUGES = frozenset({"assay_process_start_time_seconds", "assay_process_max_fds"})
"""Gauges whose sum is meaningless. The service is ready once one process is: no other listens before it is ready."""


class Differences:
    """The changes of a table since the last time, as messages."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self._families = 0
        self._sent = np.zeros(0)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield messages for `MergedMetrics.update`, all of one moment, even if the table changes meanwhile."""
        values, series, sent = self._table.values.copy(), self._table.series, len(self._sent)
        families, self._families = self._table.families[self._families :], len(self._table.families)
        changed = np.flatnonzero(values[:sent] != self._sent)
        self._sent = values
        if families:
            yield {"families": list(map(tuple, families))}
        for start in range(sent, len(values), CHUNK):
            end = min(start + CHUNK, len(values))
            yield {"series": list(map(tuple, series[start:end])), "values": values[start:end]}
        for start in range(0, len(changed), CHUNK):
            numbers = changed[start : start + CHUNK]
            yield {"changed": numbers, "values": values[numbers]}


class WorkerMetrics:
    def __init__(self) -> None:
        self.values = np.zeros(0)
        self.numbers: list[int] = []
        """The number of each series in the merged table; all runs that count as `other` have the same numbers."""
        self.extremes: dict[int, int] = {}
        """Positions of the series that are not added up, by their numbers."""

    def totals(self, n: int) -> np.ndarray:
        """Return the values by the n series of the merged table, float64 (n,)."""
        return np.bincount(np.array(self.numbers, np.int64), self.values, n)


class MergedMetrics:
    """The sum of the metrics of all workers, also of workers that have ended.

    It is added up by slot, always in the same order: sums of floating-point numbers in another order could fall by a
    rounding error when a worker ends, which Prometheus takes for a restart.
    """

    def __init__(self, runs: RunNames) -> None:
        self._runs = runs
        self._table = SeriesTable()
        self._choices: dict[int, Callable[[float, float], float]] = {}
        """Functions that choose among the values of series that are not added up."""
        self._cumulative: list[int] = []
        self._ended: dict[int, np.ndarray] = {}
        """The counts of the workers that have ended, by slot."""

    def update(self, worker: WorkerMetrics, message: dict[str, Any]) -> None:
        for family in message.get("families", ()):
            self._table.add_family(*family)
        if "series" in message:
            for series in message["series"]:
                number = self._number(*series)
                if number in self._choices:
                    worker.extremes[number] = len(worker.numbers)
                worker.numbers.append(number)
            worker.values = np.append(worker.values, message["values"])
        elif "changed" in message:
            worker.values[message["changed"]] = message["values"]

    def _number(self, family: str, sample: str, labels: list[list[str]]) -> int:
        """Return the number of a series in the merged table, where runs that are not admitted count as `other`."""
        pairs = tuple((name, self._runs.label(value) if name == "run" else value) for name, value in labels)
        before = len(self._table.series)
        number = self._table.number(Series(family, sample, pairs))
        if number == before:
            kind = self._table.family(family).kind
            if kind in CUMULATIVE:
                self._cumulative.append(number)
            elif kind == "info" or family in MAX_GAUGES:
                self._choices[number] = max
            elif family in MIN_GAUGES:
                self._choices[number] = min
        return number

    def end(self, slot: int, worker: WorkerMetrics) -> None:
        """Keep the counts, but not the gauges, of a worker that has ended."""
        counts = self._counts(slot, worker)
        self._ended[slot] = np.zeros(len(counts))
        self._ended[slot][self._cumulative] = counts[self._cumulative]

    def merge(self, workers: Mapping[int, WorkerMetrics], metrics: Iterable[Metric]) -> SeriesTable:
        """Add up the metrics of the workers by their slots, and add the supervisor's own."""
        slots = sorted(workers.keys() | self._ended.keys())
        self._table.values[:] = sum(self._counts(slot, workers.get(slot)) for slot in slots)
        for number, choose in self._choices.items():
            values = [
                worker.values[worker.extremes[number]] for worker in workers.values() if number in worker.extremes
            ]
            self._table.values[number] = reduce(choose, values, values[0]) if values else 0.0
        self._table.put(metrics)
        return self._table

    def _counts(self, slot: int, worker: WorkerMetrics | None) -> np.ndarray:
        """Return the counts of all workers of a slot, and the gauges of the one that runs."""
        counts = np.zeros(len(self._table.series))
        ended = self._ended.get(slot, counts[:0])
        counts[: len(ended)] = ended
        return counts if worker is None else counts + worker.totals(len(counts))

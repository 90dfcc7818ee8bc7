"""The text of `/metrics`, of one worker and of all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from .exchange import RunNames
from .series import CUMULATIVE, Family, Labels, Series, SeriesTable

RENDER_SECONDS = 1.0
CHUNK_LINES = 256
"""Lines that are rendered before other threads get a turn; about 0.2 ms."""

PAUSE_SECONDS = 0.0002
"""Time for which the thread that renders releases the GIL: the event loop would otherwise wait 5 ms to get it."""

Result = TypeVar("Result")
number_text: Callable[[float], str] = floatToGoString


class Exposition(NamedTuple):
    text: bytes
    openmetrics: bytes

    def bytes_in(self, openmetrics: bool) -> bytes:
        return self.openmetrics if openmetrics else self.text


class Renderer:
    """Keeps the text of every line, and formats only values that have changed. For one thread at a time."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}
        """Names and values in turns, by family."""
        self._places: list[tuple[list[str], int]] = []
        self._values = np.zeros(0)

    def render(self, families: Sequence[Family], series: Sequence[Series], values: np.ndarray) -> Exposition:
        """Render the series with these values; families and series may only have grown since the last call."""
        for family in families[len(self._lines) :]:
            self._lines[family.name] = []
        rendered = len(self._places)
        differs = values[:rendered].view(np.int64) != self._values.view(np.int64)  # of bits: 0.0 and -0.0, and NaN
        changed = np.r_[np.flatnonzero(differs), rendered : len(values)].tolist()
        for start in range(0, len(changed), CHUNK_LINES):
            for number in changed[start : start + CHUNK_LINES]:
                if number >= rendered:
                    self._add(series[number])
                lines, position = self._places[number]
                lines[position] = f"{number_text(values[number])}\n"
            time.sleep(PAUSE_SECONDS)
        self._values = values
        blocks = []
        for family in families:
            blocks.append((family, "".join(self._lines[family.name]).encode()))
            time.sleep(PAUSE_SECONDS)
        text = b"".join([part for family, lines in blocks for part in (text_head(family), lines)])
        openmetrics = [part for family, lines in blocks for part in (openmetrics_head(family), lines)]
        return Exposition(text, b"".join([*openmetrics, b"# EOF\n"]))

    def _add(self, series: Series) -> None:
        lines = self._lines[series.family]
        self._places.append((lines, len(lines) + 1))
        lines += (f"{series.sample}{label_text(series.labels)} ", "")


def label_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escape(value, quotes=True)}"' for name, value in labels) + "}"


def escape(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def text_head(family: Family) -> bytes:
    """Return the lines HELP and TYPE of Prometheus text, which names a counter and an info by their samples."""
    name, documentation, kind = family
    if kind in ("counter", "info"):
        name = f"{name}_{'total' if kind == 'counter' else kind}"
    kind = {"info": "gauge", "unknown": "untyped"}.get(kind, kind)
    return f"# HELP {name} {escape(documentation, quotes=False)}\n# TYPE {name} {kind}\n".encode()


def openmetrics_head(family: Family) -> bytes:
    name, documentation, kind = family
    return f"# HELP {name} {escape(documentation, quotes=True)}\n# TYPE {name} {kind}\n".encode()


class Paced(Generic[Result]):
    """Calls `run` for all who wait, at most every `seconds`; each caller gets the result of a run that began later."""

    def __init__(self, run: Callable[[], Awaitable[Result]], seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self._earliest = 0.0
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Result] | None = None

    async def __call__(self) -> Result:
        if self._next is None:
            self._next = asyncio.create_task(self._run_later())
        return await asyncio.shield(self._next)

    async def _run_later(self) -> Result:
        async with self._turn:
            await asyncio.sleep(self._earliest - time.monotonic())
            self._earliest = time.monotonic() + self._seconds
            self._next = None  # callers from here on wait for the next call
            return await self._run()


def paced_rendering(refresh: Callable[[], Awaitable[SeriesTable]]) -> Paced[Exposition]:
    """Return a function that renders the table that `refresh` returns, in a thread and at most once a second."""
    renderer = Renderer()

    async def render() -> Exposition:
        table = await refresh()
        return await asyncio.to_thread(renderer.render, tuple(table.families), table.series, table.values.copy())

    return Paced(render, RENDER_SECONDS)


CHUNK_SERIES = 500
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
        for start in range(sent, len(values), CHUNK_SERIES):
            end = min(start + CHUNK_SERIES, len(values))
            yield {"series": list(map(tuple, series[start:end])), "values": values[start:end]}
        for start in range(0, len(changed), CHUNK_SERIES):
            numbers = changed[start : start + CHUNK_SERIES]
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

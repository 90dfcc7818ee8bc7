"""The text of `/metrics`, of one worker and of all."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

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
Exposition = tuple[bytes, bytes]
"""The same lines as Prometheus text and as OpenMetrics."""

number_text: Callable[[float], str] = floatToGoString


class Renderer:
    """Keeps the text of every line, and formats only values that have changed. For one thread at a time."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._lines: list[str] = []
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        """The numbers of the series of each family."""
        self._values = np.zeros(0)

    def render(self, families: Sequence[Family], series: Sequence[Series], values: np.ndarray) -> Exposition:
        """Render the series with these values; families and series may only have grown since the last call."""
        rendered = len(self._lines)
        differs = values[:rendered].view(np.int64) != self._values.view(np.int64)  # of bits: 0.0 and -0.0, and NaN
        changed = np.r_[np.flatnonzero(differs), rendered : len(values)].tolist()
        for start in range(0, len(changed), CHUNK_LINES):
            for number in changed[start : start + CHUNK_LINES]:
                if number == len(self._lines):
                    family, sample, labels = series[number]
                    self._numbers[family].append(number)
                    self._names.append(f"{sample}{label_text(labels)}")
                    self._lines.append("")
                self._lines[number] = f"{self._names[number]} {number_text(values[number])}\n"
            time.sleep(PAUSE_SECONDS)
        self._values = values
        text, openmetrics = [], []
        for family in families:
            lines = "".join([self._lines[number] for number in self._numbers[family.name]]).encode()
            text += [text_head(*family), lines]
            openmetrics += [head(*family, quotes=True), lines]
            time.sleep(PAUSE_SECONDS)
        return b"".join(text), b"".join([*openmetrics, b"# EOF\n"])


def label_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escape(value, quotes=True)}"' for name, value in labels) + "}"


def escape(text: str, *, quotes: bool) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def head(name: str, documentation: str, kind: str, *, quotes: bool) -> bytes:
    return f"# HELP {name} {escape(documentation, quotes=quotes)}\n# TYPE {name} {kind}\n".encode()


def text_head(name: str, documentation: str, kind: str) -> bytes:
    """Return the head of Prometheus text, which names a counter and an info by their samples."""
    if kind in ("counter", "info"):
        name = f"{name}_{'total' if kind == 'counter' else kind}"
    return head(name, documentation, {"info": "gauge", "unknown": "untyped"}.get(kind, kind), quotes=False)


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


MAX_GAUGES = frozenset({"assay_ready", "assay_draining", "assay_compiled_signatures"})
MIN_GAUGES = frozenset({"assay_process_start_time_seconds", "assay_process_max_fds"})
"""Gauges whose sum is meaningless. The service is ready once one process is: no other listens before it is ready."""


class Reports:
    """What a worker reports of its table: series that are new since its last report, and all values."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        self._families = self._series = 0

    def next(self) -> tuple[dict[str, Any], bytes]:
        """Return the arguments of `MergedMetrics.update`."""
        families, series = self._table.families, self._table.series
        new = {
            "families": [tuple(family) for family in families[self._families :]],
            "series": [tuple(line) for line in series[self._series :]],
        }
        self._families, self._series = len(families), len(series)
        return new, self._table.values.tobytes()


class SlotMetrics:
    """The metrics of the worker in one slot, and the counts of those that have ended there."""

    def __init__(self, ended: np.ndarray) -> None:
        self.numbers: list[int] = []
        """The number of each series in the merged table; all runs that count as `other` have the same numbers."""
        self.values = np.zeros(0)
        self._ended = ended

    def current(self, n: int) -> np.ndarray:
        """Return the worker's values by the n series of the merged table, float64 (n,)."""
        return np.bincount(np.array(self.numbers, np.int64), self.values, n).astype(np.float64, copy=False)

    def total(self, n: int) -> np.ndarray:
        total = self.current(n)
        total[: len(self._ended)] += self._ended
        return total


class MergedMetrics:
    """The sum of the metrics of all workers, also of workers that have ended.

    It is added up by slot, always in the same order: sums of floating-point numbers in another order could fall by a
    rounding error when a worker ends, which Prometheus takes for a restart.
    """

    def __init__(self, slots: int, runs: RunNames) -> None:
        self._runs = runs
        self._table = SeriesTable()
        self._slots = [SlotMetrics(np.zeros(0)) for _ in range(slots)]
        self._cumulative: list[int] = []
        self._maxima: list[int] = []
        self._minima: list[int] = []
        """Series that are not added up."""

    def update(self, slot: int, new: dict[str, Any], values: bytes) -> None:
        """Take the report of the worker in a slot."""
        for family in new["families"]:
            self._table.add_family(*family)
        self._slots[slot].numbers += [self._number(*series) for series in new["series"]]
        self._slots[slot].values = np.frombuffer(values)

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
                self._maxima.append(number)
            elif family in MIN_GAUGES:
                self._minima.append(number)
        return number

    def end(self, slot: int) -> None:
        """Keep the counts, but not the gauges, of a worker that has ended."""
        total = self._slots[slot].total(len(self._table.series))
        ended = np.zeros(len(total))
        ended[self._cumulative] = total[self._cumulative]
        self._slots[slot] = SlotMetrics(ended)

    def merge(self, metrics: Iterable[Metric]) -> SeriesTable:
        """Add up the metrics of the workers, and add the supervisor's own."""
        values = self._table.values
        n = len(values)
        values[:] = sum(slot.total(n) for slot in self._slots)
        reporting = [slot.current(n) for slot in self._slots if slot.numbers]
        for numbers, choose in ((self._maxima, np.max), (self._minima, np.min)):
            values[numbers] = choose([current[numbers] for current in reporting], axis=0) if reporting else 0.0
        self._table.put(metrics)
        return self._table

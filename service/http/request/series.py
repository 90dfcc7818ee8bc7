"""Series of `/metrics`: cheap to count, rendered in a thread, and merged over the workers."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.utils import floatToGoString

from .run_names import RunNames

CUMULATIVE = frozenset({"counter", "histogram", "summary"})
"""Types of families whose values only grow, and stay valid after their process has ended."""

Labels = tuple[tuple[str, str], ...]
"""Names and values of labels, sorted by name."""


class Family(NamedTuple):
    """The contents of the lines HELP and TYPE, by the names and types of prometheus_client."""

    name: str
    documentation: str
    kind: str

    def collect(self) -> list[Metric]:
        """Return the family without samples, for prometheus_client to render."""
        return [Metric(*self)]


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
    """Keeps the text of every line, and formats only values that have changed. For one thread at a time.

    prometheus_client's own functions format all lines every time, which takes ten times as long, and hold the GIL: the
    event loop would wait 10 to 15 ms.
    """

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
                    family_name, sample, labels = series[number]
                    self._numbers[family_name].append(number)
                    self._names.append(f"{sample}{label_text(labels)}")
                    self._lines.append("")
                self._lines[number] = f"{self._names[number]} {number_text(values[number])}\n"
            time.sleep(PAUSE_SECONDS)
        self._values = values
        text, openmetrics_text = [], []
        for family in families:
            text_head, openmetrics_head = heads(family)
            lines = "".join([self._lines[number] for number in self._numbers[family.name]]).encode()
            text += [text_head, lines]
            openmetrics_text += [openmetrics_head, lines]
            time.sleep(PAUSE_SECONDS)
        return b"".join(text), b"".join([*openmetrics_text, END])


def label_text(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escape(value)}"' for name, value in labels) + "}"


def escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


END = b"# EOF\n"


@cache
def heads(family: Family) -> Exposition:
    """Return the lines HELP and TYPE as Prometheus text and as OpenMetrics."""
    whole: bytes = openmetrics.generate_latest(family)  # type: ignore[no-untyped-call]
    return generate_latest(family), whole.removesuffix(END)


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

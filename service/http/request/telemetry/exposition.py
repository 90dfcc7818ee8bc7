"""Renders series as Prometheus text and as OpenMetrics, in a thread and at most once a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from prometheus_client.utils import floatToGoString

from .series import Family, Labels, Series, SeriesTable

__all__ = ["RENDER_SECONDS", "Exposition", "Paced", "Renderer", "paced_rendering"]

RENDER_SECONDS = 1.0
CHUNK = 256
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
        for start in range(0, len(changed), CHUNK):
            for number in changed[start : start + CHUNK]:
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

"""Pages and their charts.

Lengths are in units of the SVG, from its top left corner.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..terminal import printable
from ..version import VERSION
from ..wording import fixed, format_reward, format_reward_change, share


def render(template: str, **values: Any) -> str:
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return _environment().get_template(template).render(values, when=when, version=VERSION)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=lambda name: name is None or name.endswith(".html"),
        undefined=StrictUndefined,
        finalize=lambda value: without_controls(value) if type(value) is str else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": "{:,}".format,
        "share": share,
        "fixed": fixed,
        "reward": format_reward,
        "gain": format_reward_change,
    }
    return environment


def without_controls(text: str) -> str:
    """Return the text with its line ends and tabs, but without what could reorder or hide the text around it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)


LEFT, RIGHT, TOP, BOTTOM = 46, 14, 30, 38  # margins for tick labels, titles, and the label of the mean
MAX_POINTS = 300  # up to this number of responses a point is drawn for each, above it a cell for each pair of bins
INTERVALS_WIDTH, ROW_HEIGHT, CHARACTER_WIDTH = 520, 24, 7  # lengths of a plot of intervals, whose rows have names
CELL_ROWS = 20
MAX_CELL_COLUMNS = 24


class Tick(NamedTuple):
    """A label of an axis, at `x` or `y`."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A bar or a cell; the text repeats its numbers. Opacity is for cells."""

    text: str
    x: float
    y: float
    width: float
    height: float
    _: KW_ONLY
    failed: bool = False
    opacity: float | None = None


class Dot(NamedTuple):
    """A response, an estimate, or with `mean` the mean of a column of cells."""

    text: str
    x: float
    y: float
    failed: bool = False
    mean: bool = False


class Line(NamedTuple):
    """A vertical line with its label; `anchor` is the alignment of the label, so that it stays inside the chart."""

    text: str
    x: float
    anchor: str


@dataclass(frozen=True)
class Chart:
    """A drawing between two axes. The note says what colours mean, if they mean a number."""

    label: str
    area: tuple[int, int]
    titles: tuple[str, str]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    _: KW_ONLY
    bars: Sequence[Bar] = ()
    dots: Sequence[Dot] = ()
    line: Line | None = None
    path: Sequence[tuple[float, float]] = ()
    """Points that lines connect."""
    note: str = ""
    left: int = LEFT
    top: int = TOP

    @property
    def right(self) -> int:
        return self.area[0] - RIGHT

    @property
    def bottom(self) -> int:
        return self.area[1] - BOTTOM


def ticks(low: float, high: float, most: int = 6, whole: bool = False) -> list[float]:
    """Return at most `most` multiples of 1, 2, 2.5 or 5 times a power of ten, from `low` to `high`."""
    rough = max((high - low) / (most - 1), 1e-12)
    power = 10.0 ** math.floor(math.log10(rough))
    steps = [step * power for step in (1.0, 2.0, 2.5, 5.0, 10.0, 20.0) if not whole or (step * power).is_integer()]
    step = next((step for step in steps if step >= rough * (1 - 1e-9)), 1.0)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


def number(value: float) -> str:
    """Format a tick, in a few characters: `0.25`, `5,000`, `150k`, `2.5M`."""
    for least, unit in ((1e6, "M"), (1e4, "k")):
        if abs(value) >= least:
            return f"{value / (1e3 if unit == 'k' else least):g}{unit}"
    return f"{value:,.6g}"


def size(value: float) -> str:
    for unit in ("B", "KB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.0f} MB"


def histogram(
    values: np.ndarray,
    bounds: tuple[float, float],
    label: str,
    x_title: str,
    *,
    y_title: str = "responses",
    bins: int = 20,
    digits: int = 4,
    failed: int = 0,
    area: tuple[int, int] = (320, 200),
) -> Chart:
    """Draw bars of equal width and a line at the mean; `failed` values at the lower bound failed a gate."""
    counts, edges = np.histogram(np.clip(values, *bounds), bins, bounds)
    width, height = area
    top = ticks(0, max(int(counts.max()), 1), 4, whole=True)
    if top[-1] < counts.max():
        top.append(2 * top[-1] - top[-2])
    across, up = scale(bounds, LEFT, width - RIGHT), scale((0, top[-1]), height - BOTTOM, TOP)
    bars: list[Bar] = []
    for k in np.flatnonzero(counts).tolist():
        x, stop, count = across(edges[k]) + 0.5, across(edges[k + 1]) - 0.5, int(counts[k])
        parts = ((0, failed, True), (failed, count, False)) if k == 0 and failed else ((0, count, False),)
        for low, high, is_failed in parts:
            if high > low:
                what = ("failed a gate" if is_failed else "passed both gates") if failed and k == 0 else y_title
                text = f"{edges[k]:.{digits}f} to {edges[k + 1]:.{digits}f}: {high - low:,} {what}"
                bars.append(Bar(text, x, up(high), stop - x, up(low) - up(high), failed=is_failed))
    mean = float(values.mean())
    x = min(max(across(mean), LEFT), width - RIGHT)
    line = Line(f"mean {mean:.{digits}f}", x, alignment(x, width))
    x_ticks = [Tick(across(value), number(value)) for value in ticks(*bounds)]
    y_ticks = [Tick(up(value), number(value)) for value in top]
    return Chart(label, area, (x_title, y_title), x_ticks, y_ticks, bars=bars, line=line)


def scatter(
    x: np.ndarray,
    rewards: np.ndarray,
    passed: np.ndarray,
    bounds: tuple[float, float],
    label: str,
    unit: str,
    area: tuple[int, int] = (520, 280),
) -> Chart:
    """Draw rewards, float64 (n,), against bytes (logarithmic) or steps: points if few, else cells and column means."""
    logarithmic = unit == "bytes"
    x_title = "length of the response" if logarithmic else "steps of the response"
    edges = doublings(x) if logarithmic else whole_edges(x)
    ends = float(edges[0]), float(edges[-1])
    width, height = area
    across = scale(ends, LEFT, width - RIGHT, logarithmic)
    up = scale(bounds, height - BOTTOM, TOP)
    marks = powers(*ends) if logarithmic else ticks(math.ceil(ends[0]), math.floor(ends[1]), 8, whole=True)
    x_ticks = [Tick(across(mark), (size if logarithmic else number)(mark)) for mark in marks]
    y_ticks = [Tick(up(value), number(value)) for value in ticks(*bounds)]
    bars: list[Bar] = []
    note = ""
    if len(x) <= MAX_POINTS:
        dots = [
            Dot(f"{at:,.0f} {unit}, reward {reward:.4f}", across(at), up(reward), failed=not ok)
            for at, reward, ok in zip(x.tolist(), rewards.tolist(), passed.tolist(), strict=True)
        ]
    else:
        bars, dots, most = cells(x, rewards, edges, bounds, unit, (across, up))
        note = f"strongest colour: {most:,} responses"
    return Chart(label, area, (x_title, "reward"), x_ticks, y_ticks, bars=bars, dots=dots, note=note)


def cells(
    x: np.ndarray,
    rewards: np.ndarray,
    edges: np.ndarray,
    bounds: tuple[float, float],
    unit: str,
    scales: tuple[Callable[[float], float], Callable[[float], float]],
) -> tuple[list[Bar], list[Dot], int]:
    """Return a cell for each pair of bins with responses, the mean reward of each column, and the largest count."""
    across, up = scales
    counts, _, levels = np.histogram2d(x, rewards, (edges, np.linspace(*bounds, CELL_ROWS + 1)))
    columns, _ = np.histogram(x, edges)
    sums, _ = np.histogram(x, edges, weights=rewards)
    bars, dots = [], []
    for column, row in np.argwhere(counts).tolist():
        (left, stop), (bottom, top) = edges[column : column + 2], levels[row : row + 2]
        text = f"{span(left, stop, unit)}, reward {bottom:.2f} to {top:.2f}: {counts[column, row]:,.0f} responses"
        opacity = 0.12 + 0.88 * math.sqrt(counts[column, row] / counts.max())
        width, height = across(stop) - across(left), up(bottom) - up(top)
        bars.append(Bar(text, across(left), up(top), width, height, opacity=opacity))
    for column in np.flatnonzero(columns).tolist():
        (left, stop), mean = edges[column : column + 2], sums[column] / columns[column]
        text = f"{span(left, stop, unit)}: mean reward {mean:.4f} of {columns[column]:,} responses"
        dots.append(Dot(text, (across(left) + across(stop)) / 2, up(mean), mean=True))
    return bars, dots, int(counts.max())


def trend(steps: np.ndarray, values: np.ndarray, name: str, area: tuple[int, int] = (320, 200)) -> Chart:
    """Return a line chart of values over steps, which ascend. NaN values are left out; two others are needed."""
    steps, values = (column[~np.isnan(values)].tolist() for column in (steps, values))
    low, high = min(values), max(values)
    ends, bounds = (steps[0], steps[-1]), (min(low, 0.0), 1.05 * max(high, 0.0) or float(low >= 0.0))
    across, up = scale(ends, LEFT, area[0] - RIGHT), scale(bounds, area[1] - BOTTOM, TOP)
    numbers = {"first": values[0], "last": values[-1], "least": low, "most": high}
    label = f"{name}: {', '.join(f'{text} {value:,.4g}' for text, value in numbers.items())}"
    x_ticks = [Tick(across(value), number(value)) for value in ticks(*ends, whole=True)]
    y_ticks = [Tick(up(value), number(value)) for value in ticks(*bounds, 4)]
    points = [(across(step), up(value)) for step, value in zip(steps, values, strict=True)]
    return Chart(label, area, ("step", name), x_ticks, y_ticks, path=points)


class IntervalText(NamedTuple):
    """An estimate with the ends of its interval, if it has one; the texts repeat the numbers."""

    head: str
    text: str
    after: str
    value: float
    ends: Sequence[float]


def intervals(estimates: Sequence[IntervalText], label: str, x_title: str) -> Chart:
    ends = [0.0, *(end for estimate in estimates for end in (estimate.value, *estimate.ends))]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    bounds = min(ends) - room, max(ends) + room
    left = 12 + CHARACTER_WIDTH * max(len(estimate.head) for estimate in estimates)
    across = scale(bounds, left, INTERVALS_WIDTH - RIGHT)
    bars, dots, rows = [], [], []
    for k, estimate in enumerate(estimates):
        y = TOP + ROW_HEIGHT * (k + 0.5)
        if estimate.ends:
            low, high = map(across, estimate.ends)
            bars.append(Bar(estimate.text, low, y - 2, max(high - low, 1.0), 4))
        dots.append(Dot(estimate.text + estimate.after, across(estimate.value), y))
        rows.append(Tick(y, estimate.head))
    area = INTERVALS_WIDTH, TOP + ROW_HEIGHT * len(estimates) + BOTTOM
    x_ticks = [Tick(across(value), number(value)) for value in ticks(*bounds)]
    line = Line("equal", across(0.0), alignment(across(0.0), INTERVALS_WIDTH))
    return Chart(label, area, (x_title, ""), x_ticks, rows, bars=bars, dots=dots, line=line, left=left)


def span(left: float, stop: float, unit: str) -> str:
    low, high = math.ceil(left), math.ceil(stop) - 1
    return f"{low:,} {unit}" if low == high else f"{low:,} to {high:,} {unit}"


def doublings(x: np.ndarray) -> np.ndarray:
    """Return edges that grow by doubling, or by a root of 2 for few doublings, around positive values."""
    low = math.floor(math.log2(max(float(x.min()), 1.0)))
    high = math.floor(math.log2(max(float(x.max()), 1.0))) + 1
    each = max(1, min(4, MAX_CELL_COLUMNS // (high - low)))
    return np.array([2.0 ** (low + k / each) for k in range((high - low) * each + 1)])


def whole_edges(x: np.ndarray) -> np.ndarray:
    """Return edges between whole numbers around the values, of at most MAX_CELL_COLUMNS bins of equal width."""
    low, high = int(x.min()), int(x.max())
    each = math.ceil((high - low + 1) / MAX_CELL_COLUMNS)
    bins = max(math.ceil((high - low + 1) / each), 3)
    return low - 0.5 + each * np.arange(bins + 1.0)


def powers(low: float, high: float) -> list[float]:
    first, last = round(math.log2(low)), round(math.log2(high))
    return [2.0**k for k in range(first, last + 1, math.ceil((last - first) / 7))]


def scale(
    bounds: tuple[float, float], start: float, stop: float, logarithmic: bool = False
) -> Callable[[float], float]:
    """Return the function from values to lengths that maps the bounds to `start` and `stop`."""
    low, high = map(math.log2, bounds) if logarithmic else bounds

    def length(value: float) -> float:
        at = math.log2(max(value, 2.0**low)) if logarithmic else value
        return start + (stop - start) * (at - low) / (high - low)

    return length


def alignment(x: float, width: int) -> str:
    room = 48
    return "start" if x < LEFT + room else "end" if x > width - RIGHT - room else "middle"

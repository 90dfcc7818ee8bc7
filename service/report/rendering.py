"""Pages of reports from templates: self-contained HTML, in which any text that is not markup is escaped.

The geometry of charts is computed here, and drawn by the macro `svg` of templates/parts.html.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ..explain.numbers import first_n, format_delta, format_number
from ..explain.terminal import printable
from ..version import VERSION
from .counts import Grid

__all__ = ["Chart", "chart_of", "grid", "histogram", "render", "without_controls"]

WIDTH, HEIGHT = 320, 110
"""Of the area above the axis, in the units of the SVG."""


def render(template: str, moment: datetime, **values: Any) -> str:
    """Return a page that was made at `moment`."""
    when = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
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
        "share": "{:.1%}".format,
        "number": format_number,
        "delta": format_delta,
        "listed": lambda words, sign, n: first_n([sign + word for word in words], n),
    }
    environment.globals |= {"WIDTH": WIDTH, "HEIGHT": HEIGHT}
    return environment


def without_controls(text: str) -> str:
    """Return the text with its line ends and tabs, but without what could reorder or hide the text around it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(printable(part) for part in line.split("\t")) for line in lines)


class Bar(NamedTuple):
    """A bar or a cell; the text repeats its numbers."""

    text: str
    x: float
    y: float
    width: float
    height: float
    opacity: float | None = None


class Mean(NamedTuple):
    """A dot, or a vertical line at `x`."""

    text: str
    x: float
    y: float = 0


class Chart(NamedTuple):
    """What is drawn above an axis with labels at both ends."""

    label: str
    left: str
    right: str
    bars: Sequence[Bar]
    line: Mean | None = None
    dots: Sequence[Mean] = ()


def histogram(edges: np.ndarray, counts: np.ndarray, mean: float | None, label: str) -> Chart:
    """Draw bars of counts between equidistant edges, and a line at the mean."""
    tallest, total, step = max(int(counts.max(initial=0)), 1), max(1, int(counts.sum())), WIDTH / len(counts)
    bars = []
    for k in np.flatnonzero(counts).tolist():
        count = int(counts[k])
        height = max(1.5, (HEIGHT - 4) * count / tallest)
        text = f"{format_number(edges[k])} to {format_number(edges[k + 1])}: {count:,} ({count / total:.1%})"
        box = (k * step + 0.5, HEIGHT - height, step - 1, height)
        bars.append(Bar(text, *(round(length, 1) for length in box)))
    low, high = float(edges[0]), float(edges[-1])
    line = None
    if mean is not None:
        x = round(WIDTH * (min(max(mean, low), high) - low) / (high - low), 1)
        line = Mean(f"mean {format_number(mean)}", x)
    return Chart(label, format_number(low), format_number(high), bars, line)


def chart_of(values: np.ndarray, bins: int, bounds: tuple[float, float], label: str) -> Chart:
    """Draw the histogram and the mean of at least one value; those out of bounds count in the first or last bin."""
    counts, edges = np.histogram(np.clip(values, *bounds), bins, bounds)
    return histogram(edges, counts, float(values.mean()), label)


def grid(counted: Grid, label: str, x_name: str) -> Chart | None:
    """Draw a cell for each pair of bins, darker for more, and a dot at the mean of each column; None without any."""
    used = np.flatnonzero(counted.counts.sum(axis=1))
    if not len(used):
        return None
    first, last = int(used[0]), int(used[-1]) + 1
    counts, edges = counted.counts[first:last], counted.x_edges[first : last + 1]
    width, height = WIDTH / len(counts), HEIGHT / counts.shape[1]
    low, high = float(counted.y_edges[0]), float(counted.y_edges[-1])
    columns = [f"{x_name} {left:,.0f} to {right:,.0f}" for left, right in pairwise(edges)]
    bars, dots = [], []
    for column, row in np.argwhere(counts).tolist():
        count = int(counts[column, row])
        bottom, top = map(format_number, counted.y_edges[row : row + 2])
        text = f"{columns[column]}, reward {bottom} to {top}: {count:,}"
        opacity = 0.15 + 0.85 * (count / int(counts.max())) ** 0.5
        box = (column * width, HEIGHT - (row + 1) * height, width, height, opacity)
        bars.append(Bar(text, *(round(length, 2) for length in box)))
    for column, mean in enumerate(counted.means[first:last]):
        if mean is not None:
            x, y = (column + 0.5) * width, HEIGHT - HEIGHT * (mean - low) / (high - low)
            dots.append(Mean(f"{columns[column]}: mean reward {format_number(mean)}", round(x, 1), round(y, 1)))
    return Chart(label, f"{edges[0]:,.0f}", f"{edges[-1]:,.0f} {x_name}", bars, dots=dots)

"""Plots of differences with their intervals, one row for each metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...evaluate.task import Metric
from ...tables.charts import BOTTOM, RIGHT, TOP, Bar, Chart, Dot, Line, Tick, alignment, number, scale, ticks
from ..evaluated_file import formatted
from .differences import Difference

__all__ = ["interval_plots"]

WIDTH = 520
ROW_HEIGHT = 24
CHARACTER_WIDTH = 7
MAX_HEAD = 22
"""Characters that are shown of a heading."""

Compared = tuple[Metric, Difference]


def interval_plots(found: Sequence[Compared], label: str, baseline: str) -> Iterator[Chart]:
    """Yield a plot of the differences whose metrics have the same unit and range; percentages share one."""
    together: dict[object, list[Compared]] = {}
    for metric, one in found:
        bounded = metric.low is not None and metric.high is not None
        unit = "percent" if metric.percent else (metric.low, metric.high) if bounded else metric.name
        together.setdefault(unit, []).append((metric, one))
    for several in together.values():
        yield interval_plot(several, label, baseline)


def interval_plot(found: Sequence[Compared], label: str, baseline: str) -> Chart:
    """Draw each difference as a dot on the bar of its interval, in the units of the table, and a line at 0."""
    unit = 100.0 if found[0][0].percent else 1.0
    ends = [0.0, *(unit * end for _, one in found for end in (one.difference, *(one.interval or ())[:2]))]
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    bounds = min(ends) - room, max(ends) + room
    heads = [short(f"{metric.title}{' ↓' if metric.less_is_better else ''}") for metric, _ in found]
    left = 12 + CHARACTER_WIDTH * max(map(len, heads))
    height = TOP + ROW_HEIGHT * len(found) + BOTTOM
    across = scale(bounds, left, WIDTH - RIGHT)
    bars, dots, rows = [], [], []
    for k, (head, (metric, one)) in enumerate(zip(heads, found, strict=True)):
        y = TOP + ROW_HEIGHT * (k + 0.5)
        text = f"{metric.title}: {formatted(metric, one.difference)}"
        if one.interval is not None:
            low, high = (across(unit * end) for end in one.interval[:2])
            text += f", {formatted(metric, one.interval.low)} to {formatted(metric, one.interval.high)}"
            bars.append(Bar(text, low, y - 2, max(high - low, 1.0), 4))
        dots.append(Dot(f"{text}, pairs: {one.n:,}", across(unit * one.difference), y))
        rows.append(Tick(y, head))
    x_ticks = [Tick(across(value), number(value)) for value in ticks(*bounds)]
    line = Line("equal", across(0.0), alignment(across(0.0), WIDTH))
    x_title = f"difference to {short(baseline)}"
    return Chart(label, WIDTH, height, x_title, "", x_ticks, rows, bars, dots, line, left=left)


def short(text: str) -> str:
    """Return the beginning of a text that is too long for a plot."""
    return text if len(text) <= MAX_HEAD else f"{text[: MAX_HEAD - 1]}…"

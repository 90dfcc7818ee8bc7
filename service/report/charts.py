"""Charts as inline SVG; the page's classes set colours, titles and labels repeat the numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..explain.numbers import format_number
from .counts import Grid
from .markup import Markup, element, table

__all__ = ["bars", "grid", "histogram", "share_bar"]

WIDTH, HEIGHT, FOOT = 320, 110, 16
BINS = 40


def _frame(parts: Sequence[str], label: str, width: int, height: int) -> Markup:
    return element("svg", *parts, viewBox=f"0 0 {width} {height}", role="img", aria_label=label)


def histogram(edges: np.ndarray, counts: np.ndarray, mean: float | None, label: str) -> Markup:
    """Draw bars of counts between equidistant edges, and a line at the mean."""
    tallest, step = max(int(counts.max(initial=0)), 1), WIDTH / len(counts)
    total = max(1, int(counts.sum()))
    parts: list[str] = [element("line", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT, class_="axis")]
    for k, count in enumerate(counts.tolist()):
        if count:
            height = max(1.5, (HEIGHT - 4) * count / tallest)
            text = f"{format_number(edges[k])} to {format_number(edges[k + 1])}: {count:,} ({count / total:.1%})"
            title = element("title", text)
            box = {"x": round(k * step + 0.5, 1), "y": round(HEIGHT - height, 1)}
            parts.append(element("rect", title, **box, width=round(step - 1, 1), height=round(height, 1), class_="bar"))
    low, high = float(edges[0]), float(edges[-1])
    if mean is not None:
        x = round(WIDTH * (min(max(mean, low), high) - low) / (high - low), 1)
        title = element("title", f"mean {format_number(mean)}")
        parts.append(element("line", title, x1=x, x2=x, y1=0, y2=HEIGHT, class_="mean"))
    parts.append(element("text", format_number(low), x=0, y=HEIGHT + FOOT - 3))
    parts.append(element("text", format_number(high), x=WIDTH, y=HEIGHT + FOOT - 3, text_anchor="end"))
    return _frame(parts, label, WIDTH, HEIGHT + FOOT)


def grid(counted: Grid, label: str, x_name: str) -> Markup:
    """Draw a cell for each pair of bins, darker for more, and a dot at the mean of each column."""
    counts = counted.counts
    used = np.flatnonzero(counts.sum(axis=1))
    if not len(used):
        return Markup("")
    first, last = int(used[0]), int(used[-1]) + 1
    step_x, step_y = WIDTH / (last - first), HEIGHT / counts.shape[1]
    tallest = int(counts.max())
    low, high = float(counted.y_edges[0]), float(counted.y_edges[-1])
    parts: list[str] = []
    for column in range(first, last):
        edges = f"{x_name} {counted.x_edges[column]:,.0f} to {counted.x_edges[column + 1]:,.0f}"
        for row, count in enumerate(counts[column].tolist()):
            if count:
                bottom, top = map(format_number, counted.y_edges[row : row + 2])
                text = f"{edges}, reward {bottom} to {top}: {count:,}"
                parts.append(
                    element(
                        "rect",
                        element("title", text),
                        x=round((column - first) * step_x, 2),
                        y=round(HEIGHT - (row + 1) * step_y, 2),
                        width=round(step_x, 2),
                        height=round(step_y, 2),
                        fill_opacity=round(0.15 + 0.85 * (count / tallest) ** 0.5, 2),
                        class_="bar",
                    )
                )
        mean = counted.means[column]
        if mean is not None:
            y = round(HEIGHT - HEIGHT * (mean - low) / (high - low), 1)
            title = element("title", f"{edges}: mean reward {format_number(mean)}")
            parts.append(
                element("circle", title, cx=round((column - first + 0.5) * step_x, 1), cy=y, r=2.5, class_="dot")
            )
    parts.append(element("line", x1=0, x2=WIDTH, y1=HEIGHT, y2=HEIGHT, class_="axis"))
    parts.append(element("text", f"{counted.x_edges[first]:,.0f}", x=0, y=HEIGHT + FOOT - 3))
    right = f"{counted.x_edges[last]:,.0f} {x_name}"
    parts.append(element("text", right, x=WIDTH, y=HEIGHT + FOOT - 3, text_anchor="end"))
    return _frame(parts, label, WIDTH, HEIGHT + FOOT)


def bars(rows: Sequence[tuple[str, int]], label: str) -> Markup:
    """Return a table of counts whose last column is a bar chart."""
    total = max(1, sum(count for _, count in rows))
    lines = [
        element(
            "tr",
            element("td", element("code", name)),
            element("td", f"{count:,}"),
            element("td", f"{count / total:.1%}"),
            element("td", share_bar(count / total), class_="drawn"),
        )
        for name, count in rows
    ]
    return table((label, "responses", "share", ""), lines, f"Responses by {label}")


def share_bar(share: float) -> Markup:
    """Draw a bar with this share of the width of its cell."""
    bar = element("rect", x=0, y=0, width=round(200 * min(max(share, 0.0), 1.0), 1), height=10, class_="bar")
    return element("svg", bar, viewBox="0 0 200 10", aria_hidden="true", class_="share")

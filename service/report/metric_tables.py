"""Numbers as the benchmarks' tables print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.task import Metric

__all__ = ["aggregate_text", "headed", "table"]

NOTHING = "–"


def aggregate_text(metric: Metric | None, value: float | None, count: int | None = None) -> str:
    """A value with two decimals of a percentage, or four of anything else, then its own count of records."""
    if value is None:
        return NOTHING
    number = f"{100 * value:.2f}" if metric is not None and metric.percent else f"{value:.4f}"
    return number if count is None else f"{number} ({count:,})"


def headed(metrics: Sequence[Metric], aggregate: Mapping[str, Any]) -> list[tuple[str, Metric | None, str]]:
    """(name, metric, heading) of every value of an aggregate, in the order of the metrics, others behind them."""
    known = {metric.name: metric for metric in metrics}
    names = [name for name in known if name in aggregate]
    names += [name for name in aggregate if name not in known and name != "count"]
    return [(name, known.get(name), known[name].title if name in known else name) for name in names]


def table(rows: Sequence[Sequence[str]], first_left: int = 1) -> str:
    """Columns of equal width, the first `first_left` of them flush left; the first row is the head."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            text.ljust(w) if k < first_left else text.rjust(w)
            for k, (text, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])

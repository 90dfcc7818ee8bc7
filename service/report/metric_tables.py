"""Values of metrics, formatted as in the papers of the benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..evaluate.task import Metric

__all__ = ["aggregate_text", "with_headings"]

NOTHING = "–"


def aggregate_text(metric: Metric | None, value: float | None, count: int | None = None) -> str:
    """Format a value as a percentage with two decimals or else with four decimals, then its count of records."""
    if value is None:
        return NOTHING
    number = f"{100 * value:.2f}" if metric is not None and metric.percent else f"{value:.4f}"
    return number if count is None else f"{number} ({count:,})"


def with_headings(metrics: Sequence[Metric], aggregate: Mapping[str, Any]) -> list[tuple[str, Metric | None, str]]:
    """Return (name, metric, heading) of every value of an aggregate, in the order of the metrics, then others."""
    known = {metric.name: metric for metric in metrics}
    names = [name for name in known if name in aggregate]
    names += [name for name in aggregate if name not in known and name != "count"]
    return [(name, known.get(name), known[name].title if name in known else name) for name in names]

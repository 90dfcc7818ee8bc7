"""The report on an evaluated file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import NamedTuple

import numpy as np
import orjson

from ..evaluate.task import Metric
from .evaluated_file import EvaluatedFile
from .rendering import Chart, chart_of, render

__all__ = ["page"]

BINS = 20
MAX_GROUPS = 16
"""Maximum number of groups per field whose distributions are drawn, largest first."""

MAX_LISTED = 200
"""Maximum number of invalid rows listed."""


class Figure(NamedTuple):
    """The distribution of a metric over all records or over a group; without a chart, a remark."""

    text: str
    name: str = ""
    chart: Chart | None = None


def page(evaluated: EvaluatedFile, moment: datetime | None = None) -> str:
    """Return the HTML of the report."""
    faults, sentences = evaluated.answers.faults, evaluated.task.failures
    options = {name: value for name, value in evaluated.options.items() if value is not None}
    return render(
        "evaluated.html",
        moment or datetime.now(UTC),
        name="standard input" if evaluated.source == "-" else PurePath(evaluated.source).name,
        evaluated=evaluated,
        options=orjson.dumps(options, default=str).decode(),
        distributions=distributions(evaluated),
        failures=[
            (reason, f"{count:,}", f"{sentences.get(reason, '')} ({'the answer' if of_response else 'the record'})")
            for (reason, of_response), count in evaluated.failures().most_common()
        ],
        invalid=[
            (fault.reason, f"{location.kind} {location.number}", fault.detail)
            for location, fault in faults[:MAX_LISTED]
        ],
        glossary=[(name, heading, metric.description if metric else "") for name, metric, heading in evaluated.metrics],
    )


def distributions(evaluated: EvaluatedFile) -> Iterator[tuple[str, str, list[Figure]]]:
    """Yield the heading and the name of each metric, and histograms over all records and over each group."""
    known = {metric.name: metric for metric in evaluated.task.metrics}
    for name, column in evaluated.result.per_record.items():
        values = column[~np.isnan(column)]
        if not values.size:
            continue
        metric = known.get(name)
        heading, bound = metric.title if metric else name, bounds(metric, values)
        figures = [figure("all", values, bound, heading)]
        for field, labels in evaluated.result.groups.items():
            figures += group_figures(field, labels, column, bound, heading)
        yield heading, name, figures


def group_figures(
    field: str, labels: Sequence[str], column: np.ndarray, bound: tuple[float, float], heading: str
) -> Iterator[Figure]:
    """Yield a histogram for each of the largest groups, ordered by name."""
    names, index, counts = np.unique(
        np.array(labels, dtype=object).astype(str), return_inverse=True, return_counts=True
    )
    largest = sorted(np.argsort(-counts, kind="stable")[:MAX_GROUPS].tolist())
    for number in largest:
        values = column[index == number]
        values = values[~np.isnan(values)]
        if values.size:
            yield figure(f"{field} {names[number]}", values, bound, heading)
    if len(names) > len(largest):
        yield Figure(f"and {len(names) - len(largest)} more of {field}")


def bounds(metric: Metric | None, values: np.ndarray) -> tuple[float, float]:
    """Return the range of the metric, or of the values if it has none."""
    low = metric.low if metric is not None and metric.low is not None else min(0.0, float(values.min()))
    high = metric.high if metric is not None and metric.high is not None else float(values.max())
    return low, high if high > low else low + 1.0


def figure(name: str, values: np.ndarray, bound: tuple[float, float], heading: str) -> Figure:
    chart = chart_of(values, BINS, bound, f"Distribution of {heading}: {name}")
    return Figure(f"n {values.size:,} · mean {values.mean():.3f} · median {np.median(values):.3f}", name, chart)

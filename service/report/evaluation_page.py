"""The report on an evaluated file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
import orjson

from ..evaluate.task import Metric
from ..explain.numbers import plural
from ..records.files import source_title
from .charts import Chart, histogram
from .evaluated_file import EvaluatedFile, Part, formatted
from .rendering import render, share
from .worst_records import mean_ranks, worst_records

__all__ = ["page"]

MAX_GROUPS = 16
"""Maximum number of groups per field whose distributions are drawn, largest first."""

MAX_LISTED = 200
"""Maximum number of invalid rows listed."""


class Figure(NamedTuple):
    """The distribution of a metric over all records or over a group."""

    name: str
    text: str
    chart: Chart


def page(evaluated: EvaluatedFile, moment: datetime | None = None) -> str:
    """Return the HTML of the report."""
    faults, sentences = evaluated.answers.faults, evaluated.task.failures
    options = {name: value for name, value in evaluated.options.items() if value is not None}
    name = source_title(evaluated.source)
    ranks = mean_ranks(evaluated)
    heads, worst = worst_records(evaluated, ranks, name)
    divisions, left_out = drawn(evaluated)
    return render(
        "evaluated.html",
        moment or datetime.now(UTC),
        name=name,
        evaluated=evaluated,
        verdict=list(verdict(evaluated, ranks)),
        table=evaluated.text_table(),
        agreement=evaluated.tables()[1:],
        options=orjson.dumps(options, default=str).decode(),
        distributions=list(distributions(evaluated, divisions)),
        left_out=left_out,
        worst_heads=heads,
        worst=worst,
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


def verdict(evaluated: EvaluatedFile, ranks: np.ndarray) -> Iterator[tuple[str, bool]]:
    """Yield sentences on the run, each with whether all is well; `ranks` are those of `mean_ranks`."""
    number, faults = len(evaluated.answers.records), len(evaluated.answers.faults)
    failed = {failure.record for failure in evaluated.result.failed}
    text = f"{plural(number, 'record')}, {'all evaluated' if not failed else f'of which {len(failed):,} failed'}"
    yield f"{text}; {plural(faults, 'invalid row')} left out." if faults else f"{text}.", not (failed or faults)
    if lowest := int((ranks == 0.0).sum()):
        have = "has" if lowest == 1 else "have"
        yield f"{plural(lowest, 'answer')} ({share(lowest / number)}) {have} the lowest value of every metric.", False
    if evaluated.result.unavailable:
        yield (
            f"{plural(len(evaluated.result.unavailable), 'metric')} could not be computed: see below the table.",
            False,
        )


def drawn(evaluated: EvaluatedFile) -> tuple[list[Part], list[str]]:
    """Return all records and the groups to draw, and remarks on others: more of a field, or the same records."""
    everything, *groups = evaluated.divisions()
    parts, remarks = [everything], []
    for field in evaluated.fields():
        of_field = groups[: len(evaluated.result.by[field])]
        groups = groups[len(of_field) :]
        for part in list(of_field):
            if (same := next((one for one in parts if np.array_equal(one.rows, part.rows)), None)) is not None:
                remarks.append(f"{part.name}: the same records as {same.name}")
                of_field.remove(part)
        largest = sorted(of_field, key=lambda part: -len(part.rows))[:MAX_GROUPS]
        parts += [part for part in of_field if any(part is one for one in largest)]
        if len(of_field) > MAX_GROUPS:
            remarks.append(f"and {len(of_field) - MAX_GROUPS:,} more of {field}")
    return parts, remarks


def distributions(evaluated: EvaluatedFile, parts: list[Part]) -> Iterator[tuple[str, str, list[Figure], str]]:
    """Yield the heading and the name of each metric, and histograms over all records and over each group.

    Of metrics with equal values of every record the first is drawn; the others have its heading instead.
    """
    known = {name: (metric, heading) for name, metric, heading in evaluated.metrics}
    seen: list[tuple[str, np.ndarray, tuple[float, float]]] = []
    for name, column in evaluated.result.per_record.items():
        if np.isnan(column).all():
            continue
        metric, heading = known[name]
        bound = bounds(metric, column[~np.isnan(column)])
        equal = (
            one for one, values, other in seen if other == bound and np.array_equal(values, column, equal_nan=True)
        )
        if same := next(equal, ""):
            yield heading, name, [], same
            continue
        seen.append((heading, column, bound))
        figures = []
        for part in parts:
            values = column[part.rows]
            values = values[~np.isnan(values)]
            if values.size:
                figures.append(figure(part.name, values, bound, heading, metric))
        yield heading, name, figures, ""


def bounds(metric: Metric | None, values: np.ndarray) -> tuple[float, float]:
    """Return the range of the metric, or of the values if it has none."""
    low = metric.low if metric is not None and metric.low is not None else min(0.0, float(values.min()))
    high = metric.high if metric is not None and metric.high is not None else float(values.max())
    return low, high if high > low else low + 1.0


def figure(name: str, values: np.ndarray, bound: tuple[float, float], heading: str, metric: Metric | None) -> Figure:
    """Draw a histogram in the units of the table."""
    percent = metric is not None and metric.percent
    unit = 100.0 if percent else 1.0
    chart = histogram(
        unit * values,
        (unit * bound[0], unit * bound[1]),
        f"Distribution of {heading}: {name}",
        heading,
        y_title="records",
        digits=2 if percent else 4,
    )
    return Figure(name, f"n {values.size:,}, median {formatted(metric, float(np.median(values)))}", chart)

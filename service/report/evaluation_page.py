"""The report on an evaluated file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePath

import numpy as np
import orjson

from ..evaluate.task import Metric
from ..version import VERSION
from .charts import histogram
from .document import document, section
from .evaluated_file import EvaluatedFile
from .markup import Markup, element, table

__all__ = ["page"]

BINS = 20
MAX_GROUPS = 16
"""Maximum number of groups per field whose distributions are drawn, largest first."""

MAX_LISTED = 200
"""Maximum number of invalid rows listed."""


def page(evaluated: EvaluatedFile, moment: datetime | None = None) -> str:
    """Return the HTML of the report."""
    name = "standard input" if evaluated.source == "-" else PurePath(evaluated.source).name
    sections = [
        summary(evaluated, name, moment or datetime.now(UTC)),
        section("Means", means(evaluated), *(element("p", note, class_="soft") for note in evaluated.footnotes())),
        section("Distributions", *distributions(evaluated), text="The line marks the mean of the available values."),
        *failures(evaluated),
        *unread(evaluated),
        section("Metrics", glossary(evaluated)),
    ]
    return document(f"{name}: {evaluated.task.name}", sections)


def summary(evaluated: EvaluatedFile, name: str, moment: datetime) -> Markup:
    when = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    options = orjson.dumps({k: v for k, v in evaluated.options.items() if v is not None}, default=str).decode()
    count = f". {len(evaluated.answers.records):,} records, {when}, Assay {VERSION}."
    details = ["Task ", element("code", evaluated.task.name), ", options ", element("code", options), count]
    return element(
        "header",
        element("h1", name),
        element("p", evaluated.task.description),
        element("p", *details, class_="soft"),
    )


def means(evaluated: EvaluatedFile) -> Markup:
    """Return the table that the terminal shows."""
    heads, *lines = evaluated.cells()
    return table(heads, [element("tr", *(element("td", cell) for cell in line)) for line in lines], "Means")


def distributions(evaluated: EvaluatedFile) -> Iterator[Markup]:
    """Yield histograms of each metric, over all records and over each group."""
    known = {metric.name: metric for metric in evaluated.task.metrics}
    for name, column in evaluated.result.per_record.items():
        values = column[~np.isnan(column)]
        if not values.size:
            continue
        metric = known.get(name)
        heading, bound = metric.title if metric else name, bounds(metric, values)
        figures = [chart("all", values, bound, heading)]
        for field, labels in evaluated.result.groups.items():
            figures += group_charts(field, labels, column, bound, heading)
        yield element("h3", heading, " ", element("span", name, class_="soft"))
        yield element("div", *figures, class_="charts")


def group_charts(
    field: str, labels: Sequence[str], column: np.ndarray, bound: tuple[float, float], heading: str
) -> Iterator[Markup]:
    """Yield a histogram for each of the largest groups, ordered by name."""
    names, index, counts = np.unique(
        np.array(labels, dtype=object).astype(str), return_inverse=True, return_counts=True
    )
    largest = sorted(np.argsort(-counts, kind="stable")[:MAX_GROUPS].tolist())
    for number in largest:
        values = column[index == number]
        values = values[~np.isnan(values)]
        if values.size:
            yield chart(f"{field} {names[number]}", values, bound, heading)
    if len(names) > len(largest):
        yield element("p", f"and {len(names) - len(largest)} more of {field}", class_="soft")


def bounds(metric: Metric | None, values: np.ndarray) -> tuple[float, float]:
    """Return the range of the metric, or of the values if it has none."""
    low = metric.low if metric is not None and metric.low is not None else min(0.0, float(values.min()))
    high = metric.high if metric is not None and metric.high is not None else float(values.max())
    return low, high if high > low else low + 1.0


def chart(name: str, values: np.ndarray, bound: tuple[float, float], heading: str) -> Markup:
    counts, edges = np.histogram(np.clip(values, *bound), BINS, bound)
    drawing = histogram(edges, counts, float(values.mean()), f"Distribution of {heading}: {name}")
    text = f"n {values.size:,} · mean {values.mean():.3f} · median {np.median(values):.3f}"
    return element("figure", drawing, element("figcaption", name, element("br"), text))


def table_rows(rows: Sequence[Sequence[str]]) -> list[Markup]:
    """Return table rows; the first column is a name, the last one text that may wrap."""
    return [
        element(
            "tr",
            element("td", element("code", row[0])),
            *(element("td", cell) for cell in row[1:-1]),
            element("td", row[-1], class_="wide"),
        )
        for row in rows
    ]


def failures(evaluated: EvaluatedFile) -> Iterator[Markup]:
    """Yield a section with the number of failed records by reason."""
    sentences = evaluated.task.failures
    rows = [
        (reason, f"{count:,}", f"{sentences.get(reason, '')} ({'the answer' if of_response else 'the record'})")
        for (reason, of_response), count in evaluated.failures().most_common()
    ]
    if rows:
        yield section("Failed records", table(("reason", "n", ""), table_rows(rows), "Failed records"))


def unread(evaluated: EvaluatedFile) -> Iterator[Markup]:
    """Yield a section that lists the invalid rows."""
    faults = evaluated.answers.faults
    if not faults:
        return
    rows = [
        (fault.reason, f"{location.kind} {location.number}", fault.detail) for location, fault in faults[:MAX_LISTED]
    ]
    more = [element("p", f"and {len(faults) - MAX_LISTED:,} more")] if len(faults) > MAX_LISTED else []
    shown = table(("reason", "location", ""), table_rows(rows), "Invalid rows")
    text = f"{len(faults):,} rows, which are not included above."
    yield section("Invalid rows", shown, *more, text=text)


def glossary(evaluated: EvaluatedFile) -> Markup:
    rows = [(name, heading, metric.description if metric else "") for name, metric, heading in evaluated.metrics]
    return table(("metric", "", ""), table_rows(rows), "Metrics")

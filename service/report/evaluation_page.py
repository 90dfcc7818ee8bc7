"""The report on an evaluated file as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson

from ..evaluate.task import Metric
from ..files.answers import record_id
from ..files.formats import source_title
from ..tables.charts import Chart, histogram
from ..tables.page import render
from ..tables.table import Table
from ..wording import NOTHING, clipped, plural, share
from .evaluated_file import EvaluatedFile, Part, formatted, glossary

__all__ = ["page"]

MAX_GROUPS = 16
"""Maximum number of groups per field whose distributions are drawn, largest first."""

MAX_LISTED = 200
"""Maximum number of invalid rows listed."""

MAX_WORST = 10
MAX_TEXT = 4_000
"""Characters that are shown of a text of a record."""

MAX_ID = 60


def page(evaluated: EvaluatedFile) -> str:
    """Return the HTML of the report."""
    options = {name: value for name, value in evaluated.options.items() if value is not None}
    name = source_title(evaluated.source)
    ranks = mean_ranks(evaluated)
    divisions, left_out = drawn(evaluated)
    invalid = [
        (fault.reason, f"{location.kind} {location.number}", fault.detail)
        for location, fault in evaluated.answers.faults[:MAX_LISTED]
    ]
    means, *agreement = evaluated.tables()
    worst, texts = worst_records(evaluated, ranks, name)
    return render(
        "evaluated.html",
        name=name,
        evaluated=evaluated,
        verdict=list(verdict(evaluated, ranks)),
        means=means,
        agreement=agreement,
        options=orjson.dumps(options, default=str).decode(),
        distributions=list(distributions(evaluated, divisions)),
        left_out=left_out,
        worst=worst,
        worst_texts=texts,
        failures=Table(
            ["reason", "n", ""], evaluated.explained_failures(), title="Failed records", code=True, wide=True
        ),
        invalid=Table(["reason", "location", ""], invalid, title="Invalid rows", code=True, wide=True),
        glossary=glossary(evaluated.metrics),
    )


def verdict(evaluated: EvaluatedFile, ranks: np.ndarray) -> Iterator[tuple[str, bool]]:
    """Yield sentences on the run, each with whether all is well; ranks: see `mean_ranks`."""
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
            if (same := next((other for other in parts if np.array_equal(other.rows, part.rows)), None)) is not None:
                remarks.append(f"{part.name}: the same records as {same.name}")
                of_field.remove(part)
        largest = sorted(of_field, key=lambda part: -len(part.rows))[:MAX_GROUPS]
        parts += [part for part in of_field if any(part is shown for shown in largest)]
        if len(of_field) > MAX_GROUPS:
            remarks.append(f"and {len(of_field) - MAX_GROUPS:,} more of {field}")
    return parts, remarks


def distributions(
    evaluated: EvaluatedFile, parts: list[Part]
) -> Iterator[tuple[str, str, list[tuple[str, str, Chart]], str]]:
    """Yield the heading and the name of each metric, and the name, a text and a histogram of each part.

    Of metrics with equal values of every record the first is drawn; the others have its heading instead.
    """
    metrics = {name: (metric, heading) for name, metric, heading in evaluated.metrics}
    seen: list[tuple[str, np.ndarray, tuple[float, float]]] = []
    for name, column in evaluated.result.per_record.items():
        if np.isnan(column).all():
            continue
        metric, heading = metrics[name]
        bound = bounds(metric, column[~np.isnan(column)])
        equal = (
            drawn_heading
            for drawn_heading, values, other in seen
            if other == bound and np.array_equal(values, column, equal_nan=True)
        )
        if same := next(equal, ""):
            yield heading, name, [], same
            continue
        seen.append((heading, column, bound))
        columns = [(part.name, column[part.rows]) for part in parts]
        present = [(part, values[~np.isnan(values)]) for part, values in columns]
        yield (
            heading,
            name,
            [figure(part, values, bound, heading, metric) for part, values in present if values.size],
            "",
        )


def bounds(metric: Metric | None, values: np.ndarray) -> tuple[float, float]:
    """Return the range of the metric, or of the values if it has none."""
    low = metric.low if metric is not None and metric.low is not None else min(0.0, float(values.min()))
    high = metric.high if metric is not None and metric.high is not None else float(values.max())
    return low, high if high > low else low + 1.0


def figure(
    name: str, values: np.ndarray, bound: tuple[float, float], heading: str, metric: Metric | None
) -> tuple[str, str, Chart]:
    """Draw a histogram in the units of the table."""
    percent = metric is not None and metric.percent
    unit = 100.0 if percent else 1.0
    label, ends = f"Distribution of {heading}: {name}", (unit * bound[0], unit * bound[1])
    chart = histogram(unit * values, ends, label, heading, y_title="records", digits=2 if percent else 4)
    return name, f"n {values.size:,}, median {formatted(metric, float(np.median(values)))}", chart


def worst_records(evaluated: EvaluatedFile, ranks: np.ndarray, name: str) -> tuple[Table, list[list[tuple[str, str]]]]:
    """Return the records with the lowest ranks (see `mean_ranks`), lowest first, and the texts of each.

    Records with the best values only are left out.
    """
    shown = [entry for entry in evaluated.metrics if entry[0] in evaluated.result.per_record]
    order = [row for row in np.argsort(ranks, kind="stable").tolist() if ranks[row] < 1.0][:MAX_WORST]
    rows, texts = [], []
    for row in order:
        record, location = evaluated.answers.records[row], evaluated.answers.locations[row]
        columns = ((metric, evaluated.result.per_record[key][row]) for key, metric, _ in shown)
        values = [NOTHING if np.isnan(value) else formatted(metric, value) for metric, value in columns]
        labels = [f"{field} {evaluated.result.groups[field][row]}" for field in evaluated.fields()]
        title = ", ".join(filter(None, [record_id(record)[:MAX_ID], *labels]))
        rows.append([location.within(name), title, *values])
        texts.append(texts_of(evaluated, record))
    heads = ["record", "id", *(heading for _, _, heading in shown)]
    return Table(heads, rows, left=2, title="Lowest-scoring records"), texts


def mean_ranks(evaluated: EvaluatedFile) -> np.ndarray:
    """Return float64 (n,): the mean of the metrics of each record; NaN for one without values.

    Each metric counts from 0 at its worst value to 1 at its best.
    """
    columns = [
        normalized(metric, column)
        for metric in evaluated.task.metrics
        if (column := evaluated.result.per_record.get(metric.name)) is not None and metric.high is not None
    ]
    if not columns:
        return np.full(len(evaluated.answers.records), np.nan)
    values = np.array(columns)
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(present, values, 0.0).sum(axis=0) / present.sum(axis=0))


def normalized(metric: Metric, column: np.ndarray) -> np.ndarray:
    """Return the values of a metric with a maximum, 0 at the worst and 1 at the best.

    Negative values of a correlation count as 0, which is what responses without any structure have.
    """
    low, high = max(metric.low or 0.0, 0.0), metric.high or 1.0
    values = np.clip((column - low) / (high - low), 0.0, 1.0)
    return 1.0 - values if metric.less_is_better else values


def texts_of(evaluated: EvaluatedFile, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names and texts of the answer and of the other fields that the task reads."""
    task = evaluated.task
    names = [task.response, *(name for name in task.record.model_fields if name != task.response)]
    grouped = {*evaluated.result.by, "id"}
    fields = [(name, record[name]) for name in names if record.get(name) not in (None, "") and name not in grouped]
    return [(name, clipped(value if isinstance(value, str) else as_json(value), MAX_TEXT)) for name, value in fields]


def as_json(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()

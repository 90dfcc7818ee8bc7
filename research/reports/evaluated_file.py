"""The result of an evaluated file as a table, a page, JSON and CSV; numbers are formatted as in the papers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson

from ...service.records.files.opening import source_name, source_title
from ...service.records.rows.answers import Answers, record_id
from ...service.records.rows.rows import Location
from ...service.tables.page import Chart, histogram, render
from ...service.tables.table import Cell, Legend, Table, as_json, csv_text
from ...service.tasks.evaluation import UNKNOWN, Aggregate, Result, metric_of
from ...service.tasks.task import Evaluation, Metric, Task, mean_of
from ...service.wording import NOTHING, clipped, in_this_shell, plural, share
from .agreement import Agreement
from .inference import NO_ERROR
from .samples import Samples, mean_over, means_by, prompt_numbers, samples_of, samples_table

FIRST_GROUPS = ("level", "type")  # difficulty first, as in the tables of the paper
MAX_VALUE = 40  # maximum length of a value, such as a prompt, in the name of a group
MAX_GROUPS = 16  # groups per field whose distributions are drawn, largest first
MAX_LISTED = 200  # rows left out that the page lists
MAX_WORST = 10
MAX_TEXT = 4_000  # characters that are shown of a text of a record
MAX_ID = 60


class ReportPart(NamedTuple):
    name: str
    rows: np.ndarray
    aggregate: Aggregate
    counts: dict[str, int]  # records of the values that cover fewer than all of them


def one_line(value: str) -> str:
    text = " ".join(value.split())
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


@dataclass(frozen=True, kw_only=True)
class EvaluatedFile:
    source: str
    task: Task
    options: dict[str, Any]
    answers: Answers
    evaluation: Evaluation
    result: Result
    command: str = ""
    agreement: Agreement | None = None
    about: str = ""  # what identifies the rows and prompts of a prepared folder

    @property
    def models(self) -> list[str]:
        return [source_title(self.source)]

    @property
    def evaluated(self) -> list[EvaluatedFile]:
        return [self]

    @cached_property
    def metrics(self) -> list[tuple[str, Metric | None, str]]:
        """(name, metric, heading) of every aggregate, in the order of the task's metrics, then others."""
        metrics = {metric.name: metric for metric in self.task.metrics}
        names = [name for name in dict.fromkeys([*metrics, *self.result.aggregate]) if name in self.result.aggregate]
        pairs = [(name, metrics.get(metric_of(name))) for name in names if name != "count"]
        return [
            (name, metric, metric.title + name.removeprefix(metric.name) if metric is not None else name)
            for name, metric in pairs
        ]

    @cached_property
    def titles(self) -> dict[str, str]:
        return {name: heading for name, _, heading in self.metrics}

    def tables(self) -> list[Table]:
        samples = [samples_table([("", self.samples)], self.titles, self.formatted)] if self.samples else []
        return [self.means(), *samples, *(self.agreement.tables(self.titles) if self.agreement else [])]

    def means(self) -> Table:
        rows = [[part.name, len(part.rows), *self.cells(part, self.metrics)] for part in self.divisions()]
        return Table(["", "n", *self.titles.values()], rows, notes=list(self.notes(rows)), groups=1)

    @cached_property
    def prompts(self) -> np.ndarray | None:
        """int64 (n,): the number of each record's prompt, None if no prompt is known to have several records."""
        return prompt_numbers([record_id(record) for record in self.answers.records])

    @cached_property
    def samples(self) -> Samples | None:
        """What several samples of each prompt reach, None if none has several."""
        if self.prompts is None:
            return None
        failed = np.zeros(len(self.prompts), bool)
        failed[[failure.record for failure in self.result.failed if failure.of_response]] = True
        columns = self.result.per_record
        metrics = {name: metric for name, metric, _ in self.metrics if metric is not None and name in columns}
        return samples_of(self.prompts, columns, metrics, failed)

    def formatted(self, name: str, value: float) -> str:
        """Return a value of the metric or aggregate of this name as the tables show it."""
        return formatted({key: metric for key, metric, _ in self.metrics}.get(name), value)

    def divisions(self) -> Iterator[ReportPart]:
        yield self.everything()
        for field in self.fields():
            yield from (self.group(field, value) for value in self.result.by[field])

    def everything(self) -> ReportPart:
        return ReportPart("all", np.arange(len(self.answers.records)), self.result.aggregate, self.result.counts)

    def group(self, field: str, value: str) -> ReportPart:
        rows = np.flatnonzero(np.array(self.result.groups[field], dtype=object) == value)
        aggregate, counts = self.result.by[field].get(value, {}), self.result.counts_by[field].get(value, {})
        return ReportPart(f"{field} {one_line(value)}", rows, aggregate, counts)

    def fields(self) -> list[str]:
        ordered = dict.fromkeys([*FIRST_GROUPS, *self.result.by])
        return [field for field in ordered if len(self.result.by.get(field, ())) > 1]

    def cells(self, part: ReportPart, metrics: Sequence[tuple[str, Metric | None, str]]) -> Iterator[Cell | None]:
        for key, metric, _ in metrics:
            value, count = part.aggregate.get(key), part.counts.get(key)
            if value is None:
                yield None
                continue
            error = self.standard_error(part, key, value)
            shown = "" if error is None else formatted(metric, error)
            yield Cell(formatted(metric, value), shown, "" if count is None else f"{count:,}")

    def standard_error(self, part: ReportPart, key: str, value: float) -> float | None:
        column = self.result.per_record.get(key)
        if column is None:
            return None
        values = column[part.rows]
        if mean_of(values) != value:  # not a mean over records
            return None
        return mean_over(values if self.prompts is None else means_by(self.prompts[part.rows], values)).error

    def notes(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        for _, metric, heading in self.metrics:
            if metric is not None and metric.percent and metric.high not in (None, 1.0):
                yield Legend(f"{heading} is out of {100 * (metric.high or 0):.0f}, the other percentages out of 100.")
        if any(isinstance(cell, Cell) and cell.error for row in rows for cell in row):
            yield Legend(self.error_note())
        if any(self.lacks_error(part) for part in self.divisions()):
            yield Legend(NO_ERROR)
        for field, groups in self.result.by.items():
            if len(groups) == 1 and UNKNOWN not in groups:
                yield f"Every record has {field} {one_line(next(iter(groups)))}."
        if self.about:
            yield Legend(self.about)
        yield from map(in_this_shell, self.result.warnings)
        for names, reason in self.unavailable():
            yield Legend(f"{NOTHING} {names}: not computed. {in_this_shell(reason)}")
        if self.result.counts:
            yield Legend(
                "(n) after a value: based on only n records; a mean of columns has the smallest n of its columns."
            )

    def lacks_error(self, part: ReportPart) -> bool:
        """Return whether a mean over several records of a part has no standard error."""
        columns = self.result.per_record
        return any(
            (~np.isnan(columns[key][part.rows])).sum() > 1 and self.standard_error(part, key, value) is None
            for key, value in part.aggregate.items()
            if key in columns and value is not None and mean_of(columns[key][part.rows]) == value
        )

    def error_note(self) -> str:
        """Return what standard errors are over."""
        if self.prompts is None:
            return "±: standard error of the mean over the records."
        return "±: standard error of the mean over the prompts, whose samples are averaged first."

    def unavailable(self) -> Iterator[tuple[str, str]]:
        """Yield the reasons why metrics could not be computed, each after the headings of these metrics."""
        reasons: dict[str, list[str]] = {}
        for name, reason in self.result.unavailable.items():
            reasons.setdefault(reason, []).append(self.titles.get(name, name))
        yield from ((", ".join(names), reason) for reason, names in reasons.items())

    def failures(self) -> Counter[tuple[str, bool]]:
        """Return the number of failed records by reason and by whether the model's answer is the cause."""
        return Counter((failure.reason, failure.of_response) for failure in self.result.failed)

    def explained_failures(self) -> list[tuple[str, int, str]]:
        return [
            (reason, count, f"{self.task.failures.get(reason, '')} ({'the answer' if of_response else 'the record'})")
            for (reason, of_response), count in self.failures().most_common()
        ]

    def invalid_rows(self) -> list[tuple[Location, str, str]]:
        """Return (location, reason, sentence) of every invalid row; a failure that a response causes is not one."""
        rows = [(location, fault.reason, fault.detail) for location, fault in self.answers.faults]
        for failure in self.result.failed:
            if not failure.of_response:
                sentence = self.task.failures.get(failure.reason, "it could not be evaluated")
                rows.append((self.answers.locations[failure.record], failure.reason, sentence))
        return sorted(rows, key=lambda row: row[0].number)

    def left_out(self) -> tuple[()]:
        """Return nothing: only files that are compared leave out valid records."""
        return ()

    def where(self, row: int) -> str:
        return self.answers.locations[row].within(source_name(self.source))

    def document(self) -> bytes:
        return as_json(self.contents())

    def contents(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "options": self.options,
            **self.result.document(),
            f"{self._kind}s": [location.number for location in self.answers.locations],
            "ids": [record_id(record) for record in self.answers.records],
            "unread": [
                {location.kind: location.number, "reason": fault.reason, "detail": fault.detail}
                for location, fault in self.answers.faults
            ],
            **({"samples": self.samples.document()} if self.samples else {}),
            **({"agreement": self.agreement.document()} if self.agreement else {}),
        }

    @property
    def _kind(self) -> str:
        return self.answers.locations[0].kind if self.answers.locations else "line"

    def csv(self) -> str:
        return csv_text(self.csv_rows())

    def csv_rows(self) -> Iterator[list[Any]]:
        per_record, groups = self.result.per_record, self.result.groups
        failed = {failure.record: failure.reason for failure in self.result.failed}
        yield [self._kind, "id", *self.result.by, *per_record, "failed"]
        for row, (location, record) in enumerate(zip(self.answers.locations, self.answers.records, strict=True)):
            values = ["" if np.isnan(column[row]) else float(column[row]) for column in per_record.values()]
            labels = [groups[field][row] for field in self.result.by]
            yield [location.number, record_id(record), *labels, *values, failed.get(row, "")]

    def page(self) -> str:
        options = {name: value for name, value in self.options.items() if value is not None}
        name = source_title(self.source)
        ranks = mean_ranks(self)
        divisions, left_out = drawn(self)
        invalid = [
            (fault.reason, f"{location.kind} {location.number}", fault.detail)
            for location, fault in self.answers.faults[:MAX_LISTED]
        ]
        means, *further = self.tables()
        worst, texts = worst_records(self, ranks, name)
        return render(
            "evaluated.html",
            name=name,
            evaluated=self,
            verdict=list(verdict(self, ranks)),
            means=means,
            further=further,
            options=orjson.dumps(options, default=str).decode(),
            distributions=list(distributions(self, divisions)),
            left_out=left_out,
            worst=worst,
            worst_texts=texts,
            failures=Table(
                ["reason", "n", ""], self.explained_failures(), title="Failed records", code=True, wide=True
            ),
            invalid=Table(["reason", "location", ""], invalid, title="Invalid rows", code=True, wide=True),
            glossary=glossary(self.metrics),
        )


def formatted(metric: Metric | None, value: float) -> str:
    return f"{100 * value:z.2f}" if metric is not None and metric.percent else f"{value:z.4f}"


def glossary(metrics: Iterable[tuple[str, Metric | None, str]]) -> Table:
    rows = [(name, heading, metric.description if metric else "") for name, metric, heading in metrics]
    return Table(["metric", "heading", "meaning"], rows, title="Metrics", code=True, wide=True)


def verdict(evaluated: EvaluatedFile, ranks: np.ndarray) -> Iterator[tuple[str, bool]]:
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


def drawn(evaluated: EvaluatedFile) -> tuple[list[ReportPart], list[str]]:
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
    evaluated: EvaluatedFile, parts: list[ReportPart]
) -> Iterator[tuple[str, str, list[tuple[str, str, Chart]], str]]:
    """Yield each metric's heading, name and histograms, or the heading that was drawn for equal values."""
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
    low = metric.low if metric is not None and metric.low is not None else min(0.0, float(values.min()))
    high = metric.high if metric is not None and metric.high is not None else float(values.max())
    return low, high if high > low else low + 1.0


def figure(
    name: str, values: np.ndarray, bound: tuple[float, float], heading: str, metric: Metric | None
) -> tuple[str, str, Chart]:
    percent = metric is not None and metric.percent
    unit = 100.0 if percent else 1.0
    label, ends = f"Distribution of {heading}: {name}", (unit * bound[0], unit * bound[1])
    chart = histogram(unit * values, ends, label, heading, y_title="records", digits=2 if percent else 4)
    return name, f"n {values.size:,}, median {formatted(metric, float(np.median(values)))}", chart


def worst_records(evaluated: EvaluatedFile, ranks: np.ndarray, name: str) -> tuple[Table, list[list[tuple[str, str]]]]:
    """Return the records with the lowest ranks below 1, lowest first, and the texts of each."""
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
    """Return float64 (n,): the mean of each record's metrics, from 0 (worst) to 1 (best); NaN without values."""
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
    """Scale a metric to 0 at its worst and 1 at its best; a negative correlation counts as 0."""
    low, high = max(metric.low or 0.0, 0.0), metric.high or 1.0
    values = np.clip((column - low) / (high - low), 0.0, 1.0)
    return 1.0 - values if metric.less_is_better else values


def texts_of(evaluated: EvaluatedFile, record: Mapping[str, Any]) -> list[tuple[str, str]]:
    task = evaluated.task
    names = [task.response, *(name for name in task.record.model_fields if name != task.response)]
    grouped = {*evaluated.result.by, "id"}
    fields = [(name, record[name]) for name in names if record.get(name) not in (None, "") and name not in grouped]
    texts = []
    for name, value in fields:
        if not isinstance(value, str):
            value = orjson.dumps(value, default=str, option=orjson.OPT_INDENT_2).decode()
        texts.append((name, clipped(value, MAX_TEXT)))
    return texts

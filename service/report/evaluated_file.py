"""The result of an evaluated file: a table, and JSON and CSV with the location of every record.

Numbers of the table are formatted as in the papers of the benchmarks.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..evaluate.evaluation import UNKNOWN, Aggregate, Result, metric_of
from ..evaluate.task import Evaluation, Metric, Task, mean_of
from ..extras import in_this_shell
from ..files.answers import Answers, record_id
from ..files.formats import source_name
from ..files.rows.rows import Location
from ..tables.table import Cell, Table, as_json, csv_text
from ..wording import NOTHING
from .agreement import Agreement

__all__ = ["FIRST_GROUPS", "EvaluatedFile", "Part", "formatted", "glossary"]

FIRST_GROUPS = ("level", "type")
"""Difficulty first, as in the tables of the paper."""

MAX_VALUE = 40
"""Maximum length of a value, such as a prompt, in the name of a group."""


class Part(NamedTuple):
    """All records, or a group of them, with the aggregates over them."""

    name: str
    rows: np.ndarray
    aggregate: Aggregate
    counts: dict[str, int]
    """Records of the values that cover fewer than all of them."""


def one_line(value: str) -> str:
    text = " ".join(value.split())
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


@dataclass(frozen=True, kw_only=True)
class EvaluatedFile:
    """The result of `assay evaluate` for one file; with the command that was run, if known."""

    source: str
    task: Task
    options: dict[str, Any]
    answers: Answers
    evaluation: Evaluation
    result: Result
    command: str = ""
    agreement: Agreement | None = None

    @property
    def metrics(self) -> list[tuple[str, Metric | None, str]]:
        """(name, metric, heading) of every aggregate, in the order of the task's metrics, then others."""
        metrics = {metric.name: metric for metric in self.task.metrics}
        names = [name for name in dict.fromkeys([*metrics, *self.result.aggregate]) if name in self.result.aggregate]
        pairs = [(name, metrics.get(metric_of(name))) for name in names if name != "count"]
        return [
            (name, metric, metric.title + name.removeprefix(metric.name) if metric is not None else name)
            for name, metric in pairs
        ]

    @property
    def titles(self) -> dict[str, str]:
        """The headings of the metrics by name."""
        return {name: heading for name, _, heading in self.metrics}

    def tables(self) -> list[Table]:
        """Return the table of means, and the agreement with labels if there are any."""
        return [self.means(), *([self.agreement.table(self.titles)] if self.agreement else [])]

    def means(self) -> Table:
        """Return all records and each group, with standard errors of what is a mean over records."""
        rows = [[part.name, len(part.rows), *self.cells(part, self.metrics)] for part in self.divisions()]
        return Table(["", "n", *self.titles.values()], rows, notes=list(self.notes(rows)), groups=1)

    def divisions(self) -> Iterator[Part]:
        """Yield all records, and the groups of every field that has more than one value."""
        yield self.everything()
        for field in self.fields():
            yield from (self.group(field, value) for value in self.result.by[field])

    def everything(self) -> Part:
        """Return all records."""
        return Part("all", np.arange(len(self.answers.records)), self.result.aggregate, self.result.counts)

    def group(self, field: str, value: str) -> Part:
        """Return the records of a group, which may be none."""
        rows = np.flatnonzero(np.array(self.result.groups[field], dtype=object) == value)
        aggregate, counts = self.result.by[field].get(value, {}), self.result.counts_by[field].get(value, {})
        return Part(f"{field} {one_line(value)}", rows, aggregate, counts)

    def fields(self) -> list[str]:
        """Return the fields by which there is more than one group."""
        ordered = dict.fromkeys([*FIRST_GROUPS, *self.result.by])
        return [field for field in ordered if len(self.result.by.get(field, ())) > 1]

    def cells(self, part: Part, metrics: Sequence[tuple[str, Metric | None, str]]) -> Iterator[Cell | None]:
        """Yield the values of a part: standard errors of means over records, and counts if they are not all records."""
        for key, metric, _ in metrics:
            value, count = part.aggregate.get(key), part.counts.get(key)
            if value is None:
                yield None
                continue
            error = self._standard_error(part, key, value)
            shown = "" if error is None else formatted(metric, error)
            yield Cell(formatted(metric, value), shown, "" if count is None else f"{count:,}")

    def _standard_error(self, part: Part, key: str, value: float) -> float | None:
        column = self.result.per_record.get(key)
        if column is None:
            return None
        values = column[part.rows]
        values = values[~np.isnan(values)]
        if len(values) < 2 or mean_of(values) != value:  # not a mean over records
            return None
        return float(values.std(ddof=1)) / math.sqrt(len(values))

    def notes(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """Yield what a reader of the table with these rows has to know."""
        for _, metric, heading in self.metrics:
            if metric is not None and metric.percent and metric.high not in (None, 1.0):
                yield f"{heading} is out of {100 * (metric.high or 0):.0f}, the other percentages out of 100."
        if any(isinstance(cell, Cell) and cell.error for row in rows for cell in row):
            yield "±: standard error of the mean over the records."
        for field, groups in self.result.by.items():
            if len(groups) == 1 and UNKNOWN not in groups:
                yield f"Every record has {field} {next(iter(groups))}."
        yield from map(in_this_shell, self.result.warnings)
        for names, reason in self.unavailable():
            yield f"{NOTHING} {names}: not computed. {in_this_shell(reason)}"
        if self.result.counts:
            yield "(n) after a value: based on only n records; a mean of columns has the smallest n of its columns."

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
        """Return the reason, the number of records and a sentence of each failure, the most frequent first."""
        return [
            (reason, count, f"{self.task.failures.get(reason, '')} ({'the answer' if of_response else 'the record'})")
            for (reason, of_response), count in self.failures().most_common()
        ]

    def invalid_rows(self) -> list[tuple[Location, str, str]]:
        """Return (location, reason, sentence) of every row that is not a valid record, in the order of the file.

        A record is invalid if it does not fit the task, or if metrics fail for another reason than its response.
        """
        rows = [(location, fault.reason, fault.detail) for location, fault in self.answers.faults]
        for failure in self.result.failed:
            if not failure.of_response:
                sentence = self.task.failures.get(failure.reason, "it could not be evaluated")
                rows.append((self.answers.locations[failure.record], failure.reason, sentence))
        return sorted(rows, key=lambda row: row[0].number)

    def where(self, row: int) -> str:
        """Name the location of a record, with its file."""
        return self.answers.locations[row].within(source_name(self.source))

    def document(self) -> bytes:
        """Return everything as JSON: the reply of `POST /v1/evaluate` with the locations of the records."""
        return as_json(self.contents())

    def contents(self) -> dict[str, Any]:
        """Return what `document` writes."""
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
            **({"agreement": self.agreement.document()} if self.agreement else {}),
        }

    @property
    def _kind(self) -> str:
        return self.answers.locations[0].kind if self.answers.locations else "line"

    def csv(self) -> str:
        """Return one line per record: location, id, groups, every metric and, if it failed, the reason."""
        return csv_text(self.csv_rows())

    def csv_rows(self) -> Iterator[list[Any]]:
        """Yield the header and a row for each record."""
        per_record, groups = self.result.per_record, self.result.groups
        failed = {failure.record: failure.reason for failure in self.result.failed}
        yield [self._kind, "id", *self.result.by, *per_record, "failed"]
        for row, (location, record) in enumerate(zip(self.answers.locations, self.answers.records, strict=True)):
            values = ["" if np.isnan(column[row]) else float(column[row]) for column in per_record.values()]
            labels = [groups[field][row] for field in self.result.by]
            yield [location.number, record_id(record), *labels, *values, failed.get(row, "")]


def formatted(metric: Metric | None, value: float) -> str:
    """Format a value as a percentage with two decimals, or else with four decimals."""
    return f"{100 * value:z.2f}" if metric is not None and metric.percent else f"{value:z.4f}"


def glossary(metrics: Iterable[tuple[str, Metric | None, str]]) -> Table:
    """Return the meaning of each metric."""
    rows = [(name, heading, metric.description if metric else "") for name, metric, heading in metrics]
    return Table(["metric", "heading", "meaning"], rows, title="Metrics", code=True, wide=True)

"""The result of an evaluated file: a table, and JSON and CSV with the location of every record.

Numbers of the table are formatted as in the papers of the benchmarks.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from ..evaluate.evaluation import UNKNOWN, Aggregate, Result, metric_of
from ..evaluate.task import Evaluation, Metric, Task, mean_of
from ..extras import in_this_shell
from ..records.answers import Answers, record_id
from ..records.files import source_name
from ..records.rows import Location
from ..terminal import table
from .comparison.agreement import Agreement
from .tables import ERROR, NOTHING, TextTable, csv_text, split

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["FIRST_GROUPS", "EvaluatedFile", "Part", "as_json", "formatted", "terminal_table"]

FIRST_GROUPS = ("level", "type")
"""Difficulty first, as in the tables of the paper."""

MAX_VALUE = 40
"""Maximum length of a value, such as a prompt, in the name of a group."""


class Part(NamedTuple):
    """All records, or those of a group, with the aggregates over them."""

    name: str
    rows: np.ndarray
    aggregate: Aggregate
    counts: dict[str, int]
    """Records of the values that cover fewer than all of them."""


def one_line(value: str) -> str:
    """Return the value on one line, shortened."""
    text = " ".join(value.split())
    return text if len(text) <= MAX_VALUE else f"{text[: MAX_VALUE - 1]}…"


@dataclass(frozen=True)
class EvaluatedFile:
    """The result of `assay evaluate` for one file; with the command that was run, if known."""

    source: str
    task: Task
    options: dict[str, Any]
    answers: Answers
    found: Evaluation
    result: Result
    command: str = ""
    agreement: Agreement | None = None

    @property
    def metrics(self) -> list[tuple[str, Metric | None, str]]:
        """(name, metric, heading) of every aggregate, in the order of the task's metrics, then others."""
        known = {metric.name: metric for metric in self.task.metrics}
        names = dict.fromkeys([*known, *self.result.aggregate])
        found = [(name, known.get(metric_of(name))) for name in names if name in self.result.aggregate]
        return [
            (name, metric, metric.title + name.removeprefix(metric.name) if metric is not None else name)
            for name, metric in found
            if name != "count"
        ]

    def parts(self) -> list[str | Table]:
        """Return the table, all records and their standard errors and then each group, and notes."""
        found = self.text_table()
        return [terminal_table(found), "", *found.notes, *self._terminal_agreement()]

    def _terminal_agreement(self) -> list[str | Table]:
        found: list[str | Table] = []
        for one in self.tables()[1:]:
            found += ["", f"{one.title}:", terminal_table(one), *(["", *one.notes] if one.notes else [])]
        return found

    def tables(self) -> list[TextTable]:
        """Return the table of means, and that of the agreement with labels if there are any."""
        return [self.text_table(), *([self.agreement.table(self.titles)] if self.agreement else [])]

    @property
    def titles(self) -> dict[str, str]:
        """The headings of the metrics by name."""
        return {name: heading for name, _, heading in self.metrics}

    def text_table(self) -> TextTable:
        """Return all records and each group, with standard errors of what is a mean over records."""
        rows = []
        for part in self.divisions():
            cells = [self.cell(part, key, metric) for key, metric, _ in self.metrics]
            rows.append([part.name, f"{len(part.rows):,}", *cells])
        return TextTable(["", "n", *(heading for _, _, heading in self.metrics)], rows, list(self.notes(rows)))

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

    def cell(self, part: Part, key: str, metric: Metric | None) -> str:
        """Format a value, its standard error if it is a mean over records, and its count if that is not all of them."""
        value, count = part.aggregate.get(key), part.counts.get(key)
        if value is None:
            return NOTHING
        error = self._standard_error(part, key, value)
        text = formatted(metric, value) + (f"{ERROR}{formatted(metric, error)}" if error is not None else "")
        return text if count is None else f"{text} ({count:,})"

    def _standard_error(self, part: Part, key: str, value: float) -> float | None:
        column = self.result.per_record.get(key)
        if column is None:
            return None
        values = column[part.rows]
        values = values[~np.isnan(values)]
        if len(values) < 2 or mean_of(values) != value:  # not a mean over records
            return None
        return float(values.std(ddof=1)) / math.sqrt(len(values))

    def notes(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield what a reader of the table with these rows has to know."""
        known = [(metric, heading) for _, metric, heading in self.metrics if metric is not None and metric.percent]
        larger = {heading: metric.high for metric, heading in known if metric.high not in (None, 1.0)}
        for heading, high in larger.items():
            yield f"{heading} is out of {100 * (high or 0):.0f}, the other percentages out of 100."
        if any(ERROR in cell for row in rows for cell in row):
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

    def invalid_rows(self) -> list[tuple[Location, str, str]]:
        """Return (location, reason, sentence) of every row that is not a valid record, in the order of the file.

        A record is invalid if it does not fit the task, or if metrics fail for another reason than its response.
        """
        found = [(location, fault.reason, fault.detail) for location, fault in self.answers.faults]
        for failure in self.result.failed:
            if not failure.of_response:
                sentence = self.task.failures.get(failure.reason, "it could not be evaluated")
                found.append((self.answers.locations[failure.record], failure.reason, sentence))
        return sorted(found, key=lambda entry: entry[0].number)

    def where(self, row: int) -> str:
        """Name the location of a record, with its file."""
        return self.answers.locations[row].within(source_name(self.source))

    def document(self) -> bytes:
        """Return everything as JSON: the reply of `POST /v1/evaluate` with the locations of the records."""
        return as_json(self.contents())

    def contents(self) -> dict[str, Any]:
        """Return what `document` writes."""
        kind = self.answers.locations[0].kind if self.answers.locations else "line"
        return {
            "source": self.source,
            "options": self.options,
            **self.result.document(),
            f"{kind}s": [location.number for location in self.answers.locations],
            "ids": [record_id(record) for record in self.answers.records],
            "unread": [
                {location.kind: location.number, "reason": fault.reason, "detail": fault.detail}
                for location, fault in self.answers.faults
            ],
            **({"agreement": self.agreement.document()} if self.agreement else {}),
        }

    def csv(self) -> str:
        """Return one line per record: location, id, groups, every metric and, if it failed, the reason."""
        return csv_text(self.csv_rows())

    def csv_rows(self) -> Iterator[list[Any]]:
        """Yield the header and a row for each record."""
        per_record = self.result.per_record
        failed = {failure.record: failure.reason for failure in self.result.failed}
        fields = list(self.result.by)
        kind = self.answers.locations[0].kind if self.answers.locations else "line"
        yield [kind, "id", *fields, *per_record, "failed"]
        columns = [column.tolist() for column in per_record.values()]
        groups = self.result.groups
        for row, (location, record) in enumerate(zip(self.answers.locations, self.answers.records, strict=True)):
            values = ["" if np.isnan(column[row]) else column[row] for column in columns]
            labels = [groups[field][row] for field in fields]
            yield [location.number, record_id(record), *labels, *values, failed.get(row, "")]


def as_json(document: Any) -> bytes:
    """Return an indented JSON document; NaN is null."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def terminal_table(found: TextTable, with_errors: int = 1) -> Table:
    """Return a table for the terminal: standard errors in rows below those of the first rows, and a star at the best.

    Names of groups that are repeated from row to row are left out.
    """
    rows: list[list[str]] = []
    starred = {column for _, column in found.best}
    room = [" " if column in starred else "" for column in range(found.left, len(found.heads))]
    for k, row in enumerate(found.rows):
        cells = [split(cell) for cell in row[found.left :]]
        stars = ["*" if (k, found.left + column) in found.best else room[column] for column in range(len(cells))]
        values = [
            f"{value}{star} ({count})" if count else f"{value}{star}"
            for (value, _, count), star in zip(cells, stars, strict=True)
        ]
        names = list(row[: found.left])
        if found.left > 1 and k and row[0] == found.rows[k - 1][0]:
            names[0] = ""
        rows.append([*names, *values])
        if k < with_errors and any(error for _, error, _ in cells):
            rows.append(
                [
                    *[""] * (found.left - 1),
                    "±",
                    *(error + space for (_, error, _), space in zip(cells, room, strict=True)),
                ]
            )
    heads = broken(found.heads, rows, get_terminal_size().columns) if sys.stdout.isatty() else found.heads
    return table(heads, rows, found.left)


def formatted(metric: Metric | None, value: float) -> str:
    """Format a value as a percentage with two decimals, or else with four decimals."""
    return f"{100 * value:z.2f}" if metric is not None and metric.percent else f"{value:z.4f}"


def broken(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the headings, broken after hyphens and between words if the table would be wider than `width`."""
    columns = zip(heads, *rows, strict=True)
    if sum(2 + max(map(len, column)) for column in columns) - 2 <= width:
        return list(heads)
    lines = [head.replace("-", "-\n").replace(" ", "\n") for head in heads]
    most = max(text.count("\n") for text in lines)
    return ["\n" * (most - text.count("\n")) + text for text in lines]

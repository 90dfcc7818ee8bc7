"""The result of an evaluated file as table, JSON and CSV, with the location of every record.

Numbers of the table are formatted as in the papers of the benchmarks.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from ..evaluate.evaluation import Result
from ..evaluate.task import Metric, Task
from ..files.answers import Answers, record_id
from ..files.rows.rows import Location
from ..terminal import table

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["EvaluatedFile"]

FIRST_GROUPS = ("level", "type")
"""Difficulty first, as in the tables of the paper."""

NOTHING = "–"


@dataclass(frozen=True)
class EvaluatedFile:
    """The result of `assay evaluate` for one file."""

    source: str
    task: Task
    options: dict[str, Any]
    answers: Answers
    result: Result

    @property
    def metrics(self) -> list[tuple[str, Metric | None, str]]:
        """(name, metric, heading) of every aggregate, in the order of the task's metrics, then others."""
        known = {metric.name: metric for metric in self.task.metrics}
        names = dict.fromkeys([*known, *self.result.aggregate])
        return [
            (name, known.get(name), known[name].title if name in known else name)
            for name in names
            if name in self.result.aggregate and name != "count"
        ]

    def parts(self) -> list[str | Table]:
        """Return the table, all records and then each group, and footnotes."""
        heads, *rows = self.cells()
        return [table(heads, rows), *self.footnotes()]

    def cells(self) -> list[list[str]]:
        """Return the header of the table and its rows."""
        rows = [["", "n", *(heading for _, _, heading in self.metrics)]]
        rows.append(self._line("all", self.result.aggregate, self.result.counts))
        for field in dict.fromkeys([*FIRST_GROUPS, *self.result.by]):
            for value, aggregate in self.result.by.get(field, {}).items():
                rows.append(self._line(f"{field} {value}", aggregate, self.result.counts_by[field][value]))
        return rows

    def _line(self, name: str, aggregate: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
        cells = [_value(metric, aggregate.get(key), counts.get(key)) for key, metric, _ in self.metrics]
        return [name, f"{aggregate['count']:,}", *cells]

    def footnotes(self) -> Iterator[str]:
        """Yield a sentence for every metric that was not computed, and one about counts in brackets."""
        titles = {key: heading for key, _, heading in self.metrics}
        for name, reason in self.result.unavailable.items():
            yield f"{NOTHING} {titles.get(name, name)}: not computed. {reason}"
        if self.result.counts:
            yield "(n) after a value: based on n records only; a mean of columns has the n of the shortest."

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

    def document(self) -> bytes:
        """Return everything as JSON: the reply of `POST /v1/evaluate` with the locations of the records."""
        kind = self.answers.locations[0].kind if self.answers.locations else "line"
        document = {
            "source": self.source,
            "options": self.options,
            **self.result.document(),
            **({"counts": self.result.counts, "counts_by": self.result.counts_by} if self.result.counts else {}),
            f"{kind}s": [location.number for location in self.answers.locations],
            "ids": [record_id(record) for record in self.answers.records],
            "unread": [
                {location.kind: location.number, "reason": fault.reason, "detail": fault.detail}
                for location, fault in self.answers.faults
            ],
        }
        option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        return orjson.dumps(document, option=option)

    def csv(self) -> str:
        """Return one line per record: location, id, groups, every metric and, if it failed, the reason."""
        per_record = self.result.per_record
        failed = {failure.record: failure.reason for failure in self.result.failed}
        fields = list(self.result.by)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        kind = self.answers.locations[0].kind if self.answers.locations else "line"
        writer.writerow([kind, "id", *fields, *per_record, "failed"])
        columns = [column.tolist() for column in per_record.values()]
        groups = self.result.groups
        for row, (location, record) in enumerate(zip(self.answers.locations, self.answers.records, strict=True)):
            values = ["" if np.isnan(column[row]) else column[row] for column in columns]
            labels = [groups[field][row] for field in fields]
            writer.writerow([location.number, record_id(record), *labels, *values, failed.get(row, "")])
        return text.getvalue()


def _value(metric: Metric | None, value: float | None, count: int | None) -> str:
    """Format a value as a percentage with two decimals or else with four decimals, then its count of records."""
    if value is None:
        return NOTHING
    number = f"{100 * value:.2f}" if metric is not None and metric.percent else f"{value:.4f}"
    return number if count is None else f"{number} ({count:,})"

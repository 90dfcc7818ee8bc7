"""Reads answers from JSONL, JSON, Parquet and Arrow, and maps the fields of a file to the names of a task.

An invalid row does not affect other rows: it is kept with its location and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..evaluate.task import Task
from .field_names import REFERENCE_NAMES, RESPONSE_NAMES, SAMPLE_ROWS, absent_field, value_at
from .records import open_records
from .rows.rows import Fault, Location

__all__ = ["Answers", "read_answers"]

ALIASES = {"response": RESPONSE_NAMES, "generated_response": RESPONSE_NAMES, "reference": REFERENCE_NAMES}


class Answers(NamedTuple):
    """The rows of a file: valid records of the task, and faults."""

    records: list[dict[str, Any]]
    locations: list[Location]
    """The location of each record."""
    faults: list[tuple[Location, Fault]]
    aliases: dict[str, str]
    """Task fields found under another name, with that name."""


class FieldNames:
    """Maps the field names of a file to those of a task.

    mapping: the task's name to the file's; a dotted name is a path into objects.
    """

    def __init__(self, task: Task, mapping: Mapping[str, str]) -> None:
        self._mapping = dict(mapping)
        required = {name for name, field in task.record.model_fields.items() if field.is_required()}
        readable = required | {"reference"} & set(task.record.model_fields)
        self._guessed = {name: ALIASES[name] for name in readable & ALIASES.keys() - self._mapping.keys()}
        self.aliases: dict[str, str] = {}

    def rename(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the row with the task's names added; raises KeyError with a mapped name that is missing."""
        renamed = {name: value_at(row, source) for name, source in self._mapping.items()}
        for name, candidates in self._guessed.items():
            source = next((source for source in candidates if source in row), None)
            if name not in row and source is not None:
                renamed[name] = row[source]
                self.aliases[name] = source
        return {**row, **renamed} if renamed else row

    def missing_in(self, row: dict[str, Any], task: Task) -> tuple[str, str]:
        """Return the first field that a row lacks: the task's name, and the file's."""
        try:
            record = self.rename(row)
        except KeyError as missing:
            source = missing.args[0]
            return next(name for name, mapped in self._mapping.items() if mapped == source), source
        name = next(path for path, reason, _ in task.validation_errors(record) if reason == "missing_field")
        return name, name


def read_answers(source: str, fmt: str, task: Task, mapping: Mapping[str, str], max_line_bytes: int) -> Answers:
    """Read a whole file ("-": standard input) of this format; raises DocumentError if it is malformed as a whole.

    It is if its first rows all lack the same field.
    """
    fields = FieldNames(task, mapping)
    answers = Answers([], [], [], fields.aliases)
    lacking: list[dict[str, Any]] = []
    with open_records(source, fmt, max_line_bytes) as (rows, _):
        for location, row, fault, *_ in rows:
            record = row
            if fault is None:
                record, fault = to_record(task, fields, row)
            if fault is not None:
                answers.faults.append((location, fault))
            else:
                answers.records.append(record)
                answers.locations.append(location)
            if fault is not None and fault.reason == "missing_field":
                lacking.append(row)
            if len(lacking) == len(answers.faults) == SAMPLE_ROWS and not answers.records:
                check_fields(lacking, task, fields)
    if lacking and len(lacking) == len(answers.faults) and not answers.records:
        check_fields(lacking, task, fields)
    return answers


def check_fields(rows: list[dict[str, Any]], task: Task, fields: FieldNames) -> None:
    """Raise FieldError if all rows lack the field that the first one lacks."""
    name, source = fields.missing_in(rows[0], task)
    if all(fields.missing_in(row, task)[1] == source for row in rows):
        raise absent_field(source, rows, f"--field {name}=NAME")


def to_record(task: Task, fields: FieldNames, row: Any) -> tuple[Any, Fault | None]:
    """Return the row as a record of the task, or the fault that prevents it."""
    if not isinstance(row, dict):
        return None, Fault("not_an_object", "the row is not a JSON object")
    try:
        record = fields.rename(row)
    except KeyError as missing:
        return None, Fault("missing_field", f"no field {missing.args[0]!r}")
    errors = task.validation_errors(record)
    if not errors:
        return record, None
    absent = [path for path, reason, _ in errors if reason == "missing_field"]
    if len(absent) == len(errors):
        return None, Fault("missing_field", f"no field {', '.join(map(repr, absent))}")
    detail = "; ".join(f"{path or 'the row'}: {detail}" for path, _, detail in errors)
    return None, Fault(errors[0][1], detail)


def record_id(record: Mapping[str, Any]) -> str:
    """Return the id of a record; empty if it has none."""
    value = record.get("id")
    return str(value) if isinstance(value, (str, int)) else ""

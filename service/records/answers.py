"""Reads the answers of a file as records of a task, with the fields of the file under the names of the task.

An invalid row does not affect other rows: it is kept with its location and the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..evaluate.task import Task
from .fields import REFERENCE_NAMES, RESPONSE_NAMES, absent_field, value_at
from .files import Source, open_records
from .forms import task_record, unfolded
from .rows import SAMPLE_ROWS, Fault, Location

__all__ = ["Answers", "read_answers", "record_id"]

Missing = tuple[str, str]
"""A field that a row lacks: the task's name, and the file's."""

ALIASES = {"response": RESPONSE_NAMES, "generated_response": RESPONSE_NAMES, "reference": REFERENCE_NAMES}


class Answers(NamedTuple):
    """The rows of a file: valid records of the task, and faults."""

    records: list[dict[str, Any]]
    locations: list[Location]
    """The location of each record."""
    faults: list[tuple[Location, Fault]]
    aliases: dict[str, str]
    """Task fields found under another name, with that name."""


def read_answers(source: Source, task: Task, mapping: Mapping[str, str]) -> Answers:
    """Read a whole file; raises DocumentError if it is malformed as a whole.

    It is if its first rows all lack the same field.
    mapping: the task's name of a field to the file's; a dotted name is a path into objects.
    """
    answers = Answers([], [], [], {})
    lacking: list[tuple[dict[str, Any], Missing]] = []
    with open_records(source) as records:
        for location, row, fault, *_ in records.rows:
            record, missing = row, None
            if fault is None:
                record, fault, missing = to_record(task, mapping, row, answers.aliases)
            if fault is None:
                answers.records.append(record)
                answers.locations.append(location)
                continue
            answers.faults.append((location, fault))
            if missing is not None:
                lacking.append((row, missing))
            if len(lacking) == len(answers.faults) == SAMPLE_ROWS and not answers.records:
                require_field(lacking)
    if lacking and len(lacking) == len(answers.faults) and not answers.records:
        require_field(lacking)
    return answers


def require_field(lacking: Sequence[tuple[dict[str, Any], Missing]]) -> None:
    """Raise FieldError if all of these rows lack the field that the first one lacks."""
    name, source = lacking[0][1]
    if all(missing[1] == source for _, missing in lacking):
        raise absent_field(source, [row for row, _ in lacking], f"--field {name}=NAME")


def renamed(row: Mapping[str, Any], task: Task, mapping: Mapping[str, str], aliases: dict[str, str]) -> dict[str, Any]:
    """Return the row with the task's names added; raises KeyError with a mapped name that is missing.

    aliases: collects the names that were guessed.
    """
    row = unfolded(row)
    record = {**row, **{name: value_at(row, source) for name, source in mapping.items()}}
    fields = task.record.model_fields
    for name, usual in ALIASES.items():
        if name in record or name not in fields or not (fields[name].is_required() or name == "reference"):
            continue
        source = next((source for source in usual if source in row), None)
        if source is not None:
            record[name] = row[source]
            aliases[name] = source
    return task_record(task, record)


def to_record(
    task: Task, mapping: Mapping[str, str], row: Any, aliases: dict[str, str]
) -> tuple[dict[str, Any], Fault | None, Missing | None]:
    """Return the row as a record of the task, or the fault that prevents it and the first field that is missing."""
    if not isinstance(row, dict):
        return {}, Fault("not_an_object", "the row is not a JSON object"), None
    try:
        record = renamed(row, task, mapping, aliases)
    except KeyError as error:
        source = error.args[0]
        name = next(name for name, mapped in mapping.items() if mapped == source)
        return {}, Fault("missing_field", f"no field {source!r}"), (name, source)
    errors = task.validation_errors(record)
    if not errors:
        return record, None, None
    absent = [path for path, reason, _ in errors if reason == "missing_field"]
    if len(absent) == len(errors):
        return record, Fault("missing_field", f"no field {', '.join(map(repr, absent))}"), (absent[0], absent[0])
    detail = "; ".join(f"{path or 'the row'}: {detail}" for path, _, detail in errors)
    missing = (absent[0], absent[0]) if absent and errors[0][1] == "missing_field" else None
    return record, Fault(errors[0][1], detail), missing


def record_id(record: Mapping[str, Any]) -> str:
    """Return the id of a record; empty if it has none."""
    value = record.get("id")
    return str(value) if isinstance(value, (str, int)) else ""

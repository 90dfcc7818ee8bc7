"""Answers out of JSONL, JSON, Parquet and Arrow, with the fields of a file under the names that a task reads.

A row that cannot be used costs no other row its result: it is kept with its place and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from ..evaluate.task import Task
from .formats import is_columnar
from .rows.rows import DocumentError, Fault, Place, array_rows, decoded, json_document, jsonl_rows, opened

__all__ = ["RESPONSE_NAMES", "Answers", "read_answers"]

RESPONSE_NAMES = ("response", "generated_response", "model_output", "prediction", "completion")
"""Fields in which files keep a model's answer: tried in order where none is named and the task's own is missing."""

REFERENCE_NAMES = ("reference", "gt_key_block", "key", "ground_truth")
"""The same for the reference, of tasks that read one."""

NAMES = {"response": RESPONSE_NAMES, "generated_response": RESPONSE_NAMES, "reference": REFERENCE_NAMES}


class Answers(NamedTuple):
    """The rows of a file: those that are records of the task, and those that are not."""

    records: list[dict[str, Any]]
    places: list[Place]
    """Where each record stands."""
    faults: list[tuple[Place, Fault]]
    aliases: dict[str, str]
    """Fields that were found under another name than the task's, with that name."""


class Fields:
    """Gives a row's fields the names that a task reads.

    mapping: the task's name to the file's, as it was asked for; a dotted name is a path into objects.
    """

    def __init__(self, task: Task, mapping: Mapping[str, str]) -> None:
        self._mapping = dict(mapping)
        required = {name for name, field in task.record.model_fields.items() if field.is_required()}
        readable = required | {"reference"} & set(task.record.model_fields)
        self._guessed = {name: NAMES[name] for name in readable & NAMES.keys() - self._mapping.keys()}
        self.aliases: dict[str, str] = {}

    def named(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row with the task's names added; raises KeyError with a mapped name that is not there."""
        renamed: dict[str, Any] = {}
        for name, source in self._mapping.items():
            renamed[name] = value_at(row, source)
        for name, candidates in self._guessed.items():
            if name not in row:
                for source in candidates:
                    if source in row:
                        renamed[name] = row[source]
                        self.aliases[name] = source
                        break
        return {**row, **renamed} if renamed else row


def value_at(row: Mapping[str, Any], source: str) -> Any:
    """The field of this name, or the end of a dotted path; raises KeyError where it is not there."""
    if source in row:
        return row[source]
    value: Any = row
    for part in source.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(source)
        value = value[part]
    return value


def read_answers(source: str, form: str, task: Task, mapping: Mapping[str, str], longest: int) -> Answers:
    """Read a whole file ("-": standard input) of this format; raises DocumentError where it has no rows at all."""
    fields = Fields(task, mapping)
    answers = Answers([], [], [], fields.aliases)
    for place, row, fault in rows_of(source, form, longest):
        if fault is None:
            row, fault = fitted(task, fields, row)
        if fault is not None:
            answers.faults.append((place, fault))
        else:
            answers.records.append(row)
            answers.places.append(place)
    return answers


def fitted(task: Task, fields: Fields, row: Any) -> tuple[Any, Fault | None]:
    """The row as a record of the task, or why it is none."""
    if not isinstance(row, dict):
        return None, Fault("not_an_object", "the row is JSON, but no object")
    try:
        record = fields.named(row)
    except KeyError as missing:
        return None, Fault("missing_field", f"no field {missing.args[0]!r}")
    misfits = task.validation_errors(record)
    if not misfits:
        return record, None
    absent = [path for path, reason, _ in misfits if reason == "missing_field"]
    if len(absent) == len(misfits):
        return None, Fault("missing_field", f"no field {', '.join(map(repr, absent))}")
    detail = "; ".join(f"{path or 'the row'}: {detail}" for path, _, detail in misfits)
    return None, Fault(misfits[0][1], detail)


def rows_of(source: str, form: str, longest: int) -> Iterator[tuple[Place, Any, Fault | None]]:
    """Every row with its place: its value, or why it has none."""
    if is_columnar(form):
        yield from column_rows(source)
        return
    with opened(source) as (stream, _):
        if form == "jsonl":
            for row in jsonl_rows(stream, longest):
                yield (row.place, *decoded(row, longest))
            return
        document = json_document(stream.read())
    yield from document_rows(document, longest)


def document_rows(document: str, longest: int) -> Iterator[tuple[Place, Any, Fault | None]]:
    """The records of a JSON document: an array of them, or the body of a request for an evaluation."""
    first = document.lstrip(" \t\r\n")[:1]
    if first == "[":
        for row in array_rows(document):
            yield (row.place, *decoded(row, max(longest, row.size)))
        return
    try:
        request = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    records = request.get("records") if isinstance(request, dict) else None
    if not isinstance(records, list):
        raise DocumentError("neither an array of records nor an object with an array `records`")
    for number, record in enumerate(records):
        yield Place("record", number), record, None


def column_rows(source: str) -> Iterator[tuple[Place, Any, Fault | None]]:
    from .columns.source import opened_columns  # needs the extra

    number = 0
    with opened_columns(source) as columns:
        for batch in columns.batches():
            for record in batch.to_pylist():
                yield Place("row", number), record, None
                number += 1


def label_of(record: Mapping[str, Any], names: Sequence[str] = ("id",)) -> str:
    """What a record calls itself; empty where it has no name."""
    for name in names:
        value = record.get(name)
        if isinstance(value, (str, int)):
            return str(value)
    return ""

"""Reads the rows of a data set: their references, gold answers, prompts and splits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..evaluate.evaluation import task_named
from ..evaluate.scirecipe_records import RECORD_FIELDS, answer_of, text_of, without_instructions
from ..evaluate.thoth import sections_in
from ..files.field_names import (
    CONVERSATION_NAMES,
    PROMPT_NAMES,
    REFERENCE_NAMES,
    absent_field,
    asking_of,
    guess_field,
    has_field,
    objects_in,
    peek,
    prompt_of,
    value_at,
)
from ..files.formats import is_columnar, source_name
from ..files.row_tasks import RowTasks
from ..files.rows.rows import (
    DocumentError,
    Fault,
    Location,
    Place,
    Rollout,
    Row,
    decode_row,
    missing_fields,
    open_rows,
    pieces,
)
from ..rewards.registry import SCORE

__all__ = ["CheckedRow", "FieldNames", "open_checked_rows"]


SCIRECIPE_REFERENCE = "key"
"""Field of the reference in the published SciRecipe data set."""


class FieldNames(NamedTuple):
    """Where a row has its parts.

    Without `prompt`, it is one of the usual fields; without `split`, a file is a split. `response` is a model's answer.
    """

    reference: str = "reference"
    prompt: str | None = None
    split: str | None = None
    response: str | None = None


@dataclass(slots=True)
class CheckedRow:
    """One row: its reference, and as the response its gold answer, if it has one. `record` is that of a row of SCORE.

    size: its share of the size of the file.
    """

    place: Place
    rollout: Rollout
    record: dict[str, Any] | None
    split: str
    prompt: str | None
    question: str
    """The user's part of the prompt, without what SciRecipe's prompts add to each question; by it, rows of different
    splits are compared."""
    size: int

    @property
    def has_own_answer(self) -> bool:
        """Whether the gold answer is made of the fields of a published record."""
        return self.rollout.response != "" and self.rollout.response != self.rollout.reference


@contextmanager
def open_checked_rows(
    source: str, fmt: str, tasks: RowTasks, fields: FieldNames, max_line_bytes: int
) -> Iterator[tuple[Iterator[list[CheckedRow]], int | None]]:
    """Open a file ("-": standard input); yield its rows, in pieces that fit into memory, and its size, if known.

    Raises DocumentError, here or while the rows are read.
    """
    name = source_name(source)
    if is_columnar(fmt):
        from ..files.columns.source import open_columns  # needs the extra

        with open_columns(source) as columns:
            yield rows_of_columns(columns, name, tasks, fields), columns.rows
        return
    with open_rows(source, fmt, max_line_bytes) as (rows, _, size):
        if rows is None:
            raise DocumentError("there is no array of rows")
        yield rows_of_lines(rows, name, tasks, fields, max_line_bytes), size


def rows_of_lines(
    rows: Iterator[Row], name: str, tasks: RowTasks, fields: FieldNames, max_line_bytes: int
) -> Iterator[list[CheckedRow]]:
    """Yield the rows of JSONL or JSON."""
    first, rows = peek(rows)
    found = objects_in(first, max_line_bytes)
    tasks.require_field(found, "field")
    named = [row for row in found if "steps" not in row]
    fields = fields._replace(reference=guess_field(fields.reference, REFERENCE_NAMES, named))
    needed = len(named) == len(first) > 0 and not tasks.others_in(named)
    if needed and not any(fields.reference in row or published_answer(row) is not None for row in named):
        hint = " (response, if it is the reference answer)" if any("response" in row for row in named) else ""
        raise absent_field(fields.reference, named, "--reference-field" + hint)
    for flag, field in (("--prompt-field", fields.prompt), ("--split-field", fields.split)):
        if field is not None and named and not any(has_field(row, field) for row in named):
            raise absent_field(field, named, flag)
    for piece in pieces(rows):
        yield [
            checked_row(name, *read_reference(row, fields.reference, max_line_bytes), tasks, fields, row.size)
            for row in piece
        ]


def rows_of_columns(columns: Any, name: str, tasks: RowTasks, fields: FieldNames) -> Iterator[list[CheckedRow]]:
    """Yield the rows of Parquet or Arrow; of their columns, only those are read that are checked."""
    from ..files.columns.source import nested_names, without_nulls  # needs the extra
    from ..files.columns.task_batches import records_of

    names = columns.schema.names
    tasks.require_field([nested_names(columns.schema)], "column")
    fields = fields._replace(reference=guess_field(fields.reference, REFERENCE_NAMES, [names]))
    if not {fields.reference, *CONVERSATION_NAMES}.intersection(names) and not tasks.has_others:
        raise absent_field(fields.reference, [names], "--reference-field", "column")
    for flag, field in (("--prompt-field", fields.prompt), ("--split-field", fields.split)):
        if field is not None and not has_field(nested_names(columns.schema), field):
            raise absent_field(field, [names], flag, "column")
    wanted = [field.partition(".")[0] if field not in names else field for field in fields if field is not None]
    wanted += [*tasks.columns_of_others(), *RECORD_FIELDS, *PROMPT_NAMES]
    read = [one for one in dict.fromkeys(wanted) if one in names]
    columns.require(read)
    number = 0
    for batch in columns.batches(read):
        rows = []
        for values in records_of(batch):
            record = without_nulls({one: without_nulls(value) for one, value in values.items()})
            rollout = record_rollout(Location("row", number), record, fields.reference)
            rows.append(checked_row(name, rollout, record, tasks, fields, 1))
            number += 1
        yield rows


def read_reference(row: Row, field: str, max_line_bytes: int) -> tuple[Rollout, dict[str, Any] | None]:
    """Parse a row of a data set: an object with the field, or the reference itself, as text or as steps.

    The response is set to the reference if that is text, to score the expected answer. Returns the row too if it is a
    record.
    """
    record, fault = decode_row(row, max_line_bytes)
    if fault is not None:
        return Rollout(row.location, b"", fault=fault), None
    if not isinstance(record, dict) or "steps" in record:
        return reference_rollout(row.location, record), None
    return record_rollout(row.location, record, field), record


def record_rollout(location: Location, record: dict[str, Any], field: str) -> Rollout:
    """Return the rollout of a record: its reference is in the field, in `key` or the published answer of a chat."""
    published = None if field in record else record.get(SCIRECIPE_REFERENCE, published_answer(record))
    rollout = reference_rollout(location, published if isinstance(published, str) else record.get(field))
    if not isinstance(published, str):
        rollout.fault = missing_fields([field], record)
    return rollout


def published_answer(record: dict[str, Any]) -> str | None:
    """Return the answer with four sections with which the chat of a record ends, None if it has none."""
    asking = asking_of(record, CONVERSATION_NAMES)
    answer = None if asking is None else asking.answer
    return answer if answer is not None and sections_in(answer) is not None else None


def reference_rollout(location: Location, reference: Any) -> Rollout:
    """Return a row of a data set with this reference, and the same text as the response."""
    response = reference if isinstance(reference, str) else ""
    return Rollout(location, b"", reference=reference, response=response)


def checked_row(
    name: str, rollout: Rollout, record: dict[str, Any] | None, tasks: RowTasks, fields: FieldNames, size: int
) -> CheckedRow:
    """Return a row with its gold answer, prompt and split."""
    row = CheckedRow(Place(name, rollout.location), rollout, record, name, None, "", size)
    if record is None:
        return row
    if fields.split is not None:
        row.split, fault = split_of(record, fields.split)
        rollout.fault = rollout.fault or fault
    task, fault = tasks.named_by(record)
    if task != SCORE or fault is not None:
        rollout.task, row.record = task, None
        rollout.fault = fault or tasks.reference_of(task_named(task), record, fields.reference)[1]
        return row
    row.prompt, row.question = prompt_in(record, fields.prompt)
    answer = answer_of(record)
    if answer is not None and sections_in(rollout.response) is None:
        rollout.response = answer
    return row


def prompt_in(record: dict[str, Any], field: str | None) -> tuple[str | None, str]:
    """Return the prompt of a record, None without one, and the user's part of it."""
    if field is None:
        asking, text = asking_of(record), prompt_of(record)
    else:
        value = found_at(record, field)
        asking, text = asking_of({"prompt": value}), text_of(value)
    if asking is None:
        return (text if text.strip() else None), without_instructions(text)
    return "\n".join(message["content"] for message in asking.messages), without_instructions(asking.turns)


def split_of(record: dict[str, Any], field: str) -> tuple[str, Fault | None]:
    """Return the split that a field of the row names, or the fault of a row that lacks it."""
    value = found_at(record, field)
    return ("", missing_fields([field], ())) if value is None else (str(value), None)


def found_at(record: dict[str, Any], field: str) -> Any:
    """Return the field with this name or dotted path, None if the record lacks it."""
    return value_at(record, field) if has_field(record, field) else None

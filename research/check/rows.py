"""The rows of a data set as `assay check` compares them: references, gold answers, prompts and splits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from ...service.explain.case import chosen_of
from ...service.records.files.opening import Records, SourceFile, open_records
from ...service.records.jobs.row_tasks import RowTasks
from ...service.records.rows.fields import (
    CONVERSATION_NAMES,
    PROMPT_NAMES,
    REFERENCE_NAMES,
    FieldNames,
    absent_field,
    asking_of,
    field_at,
    guess_field,
    has_field,
    objects_among,
    prompt_of,
)
from ...service.records.rows.forms import TRAINER_FIELDS, published_answer, unfolded
from ...service.records.rows.rows import (
    Location,
    Record,
    Rollout,
    RowPlace,
    missing_fields,
    peek,
    pieces,
    reference_of,
    without_nulls,
)
from ...service.rewards.registry import SCORE
from ...service.scoring.references import alternatives_of
from ...service.tasks.evaluation import task_named
from ...service.tasks.scirecipe_records import RECORD_FIELDS, answer_of, prompt_text, without_instructions
from ...service.tasks.thoth import sections_in

SCIRECIPE_REFERENCE = "key"
"""Field of the reference in the published SciRecipe data set."""


@dataclass(slots=True)
class CheckedRow:
    """One row: its reference, and as the response its gold answer, if it has one. Only rows of SCORE have a `record`.

    size: its share of the size of the file.
    """

    place: RowPlace
    rollout: Rollout
    record: dict[str, Any] | None
    split: str
    _: KW_ONLY
    prompt: str | None = None
    question: str = ""
    """The user's part of the prompt, without what SciRecipe's prompts add to each question; by it, rows of different
    splits are compared."""
    size: int = 1
    alternative: int | None = None
    """Which alternative of the reference the response and the warnings are about; None without alternatives."""
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Reasons and sentences."""

    @property
    def reference(self) -> Any:
        """The reference, or one alternative of it."""
        return chosen_of(self.rollout.reference, self.alternative or 0)

    @property
    def has_own_answer(self) -> bool:
        """True if the gold answer is made of the fields of a published record."""
        return self.rollout.response != "" and self.rollout.response != self.rollout.reference


def each_alternative(rows: Iterable[CheckedRow]) -> Iterator[CheckedRow]:
    """Yield the rows; one with alternatives once for each, with the alternative as its response if it is text."""
    for row in rows:
        entries = alternatives_of(row.rollout.reference) if row.rollout.task == SCORE else None
        if not entries:
            yield row
        for k, entry in enumerate(entries or ()):
            rollout = replace(row.rollout, response=entry if isinstance(entry, str) else "")
            yield replace(row, rollout=rollout, alternative=k, warnings=[])


@contextmanager
def open_checked_rows(
    source: SourceFile, tasks: RowTasks, fields: FieldNames
) -> Iterator[tuple[Iterator[list[CheckedRow]], int | None]]:
    """Open a file; yield its rows, in pieces that fit into memory, and its size, if known.

    Raises DocumentError, here or while the rows are read.
    """
    paths = [field for field in fields if field is not None]
    columns = [*paths, *(path.partition(".")[0] for path in paths), *tasks.columns_of_others()]
    with open_records(
        source, [*columns, *RECORD_FIELDS, *PROMPT_NAMES, *REFERENCE_NAMES, *TRAINER_FIELDS], as_json=True
    ) as records:
        fields, rows = fields_of_rows(source, records, tasks, fields)
        yield ([checked_row(source, raw, tasks, fields) for raw in piece] for piece in pieces(rows)), records.size


def fields_of_rows(
    source: SourceFile, records: Records, tasks: RowTasks, fields: FieldNames
) -> tuple[FieldNames, Iterator[Record]]:
    """Return the names of the fields that the first rows have, and all records; raises FieldError if they lack one."""
    first, rows = peek(records.rows)
    objects, kind = objects_among(first), source.kind
    unfolded_rows = list(map(unfolded, objects))
    if records.columns is not None:
        names = [records.columns]
        unfolded_rows = [{name: None for row in unfolded_rows for name in row} | records.columns]
    tasks.require_field(unfolded_rows, kind)
    if records.columns is None:
        names = objects = [row for row in objects if not is_reference(row)]
        needed = len(names) == len(first) > 0 and not tasks.others_in(names)
    else:
        needed = not tasks.other_tasks and not any(name in records.columns for name in CONVERSATION_NAMES)
    reference = guess_field(fields.reference or "", REFERENCE_NAMES, names)
    if needed and not any(reference in row for row in names) and not any(map(has_reference, objects)):
        hint = " (response, if it is the reference answer)" if any("response" in row for row in objects) else ""
        raise absent_field(reference, names, "--reference-field" + hint, kind)
    for flag, path in (("--prompt-field", fields.prompt), ("--split-field", fields.split)):
        if path is not None and names and not any(has_field(row, path) for row in names):
            raise absent_field(path, names, flag, kind)
    return fields._replace(reference=reference), rows


def is_reference(record: dict[str, Any]) -> bool:
    """Return whether an object is itself a reference."""
    return "steps" in record or alternatives_of(record) is not None


def has_reference(record: dict[str, Any]) -> bool:
    """Return whether a record has its reference in another place than a field."""
    return published_answer(record) is not None or ("reference" not in record and "reference" in unfolded(record))


def checked_row(source: SourceFile, raw: Record, tasks: RowTasks, fields: FieldNames) -> CheckedRow:
    """Return a row with its gold answer, prompt and split: an object, or the reference itself."""
    place, field = RowPlace(source.name, raw.location), fields.reference or ""
    record = raw.value
    if raw.location.kind == "row":
        record = without_nulls({name: without_nulls(value) for name, value in record.items()})
    if raw.fault is not None:
        return CheckedRow(place, Rollout(raw.location, b"", fault=raw.fault), None, source.name, size=raw.size)
    if not isinstance(record, dict) or (raw.location.kind != "row" and is_reference(record)):
        return CheckedRow(place, reference_rollout(raw.location, record), None, source.name, size=raw.size)
    rollout, record = record_rollout(raw.location, record, field)
    row = CheckedRow(place, rollout, record, source.name, size=raw.size)
    if fields.split is not None:
        value = field_at(record, fields.split)
        row.split = "" if value is None else str(value)
        if value is None:
            rollout.fault = rollout.fault or missing_fields([fields.split], ())
    task, fault = tasks.named_by(record)
    if task != SCORE or fault is not None:
        rollout.task, row.record = task, None
        rollout.fault = fault
        if fault is None:
            rollout.reference, rollout.fault = tasks.reference_of(task_named(task), record, field)
        return row
    row.prompt, row.question = prompt_in(unfolded(record), fields.prompt)
    answer = answer_of(record)
    if answer is not None and sections_in(rollout.response) is None:
        rollout.response = answer
    return row


def record_rollout(location: Location, record: dict[str, Any], field: str) -> tuple[Rollout, dict[str, Any]]:
    """Return the rollout of a record, and the record with the reference that its form has elsewhere.

    The reference is in the field, in `key`, in the published answer of a chat, or in its place in a trainer's row.
    """
    if field in record:
        return reference_rollout(location, record[field]), record
    published = record.get(SCIRECIPE_REFERENCE, published_answer(record))
    if isinstance(published, str):
        return reference_rollout(location, published), record
    whole = dict(unfolded(record))
    elsewhere = "reference" in whole and "reference" not in record
    rollout = reference_rollout(location, whole["reference"] if elsewhere else None)
    rollout.fault = None if elsewhere else missing_fields([field], record)
    return rollout, whole


def reference_rollout(location: Location, reference: Any) -> Rollout:
    """Return a row of a data set with this reference, and the same text as the response."""
    response = reference if isinstance(reference, str) else ""
    return Rollout(location, b"", reference=reference_of(reference, location.kind == "row"), response=response)


def prompt_in(record: Mapping[str, Any], field: str | None) -> tuple[str | None, str]:
    """Return the prompt of a record, None without one, and the user's part of it."""
    if field is None:
        asking, text = asking_of(record), prompt_of(record)
    else:
        value = field_at(record, field)
        asking, text = asking_of({"prompt": value}), prompt_text(value)
    if asking is None:
        return (text if text.strip() else None), without_instructions(text)
    return "\n".join(message["content"] for message in asking.messages), without_instructions(asking.turns)

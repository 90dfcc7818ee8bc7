"""Answers that `evaluate` reads, and the rows that `explain` reads.

An invalid row does not affect other rows: it is kept with its location and the reason.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from ...rewards.registry import REWARD_TASKS, SCORE
from ...scoring.references import alternatives_of
from ...tasks.task import Task
from ..files.opening import Records, SourceFile, is_columnar, open_records
from ..files.wrong_files import DocumentError
from .fields import PROMPT_NAMES, REFERENCE_NAMES, RESPONSE_NAMES, FieldError, absent_field, find_fields, value_at
from .forms import TRAINER_FIELDS, is_request, task_at, unfolded
from .rows import (
    PIECE_ROWS,
    SAMPLE_ROWS,
    Fault,
    Fields,
    Location,
    Record,
    Rollout,
    fill_rollout,
    reference_of,
    rollout_of,
)

Missing = tuple[str, str]
"""A field that a row lacks: the task's name, and the file's."""

ALIASES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("response", "generated_response", "model_answer"), RESPONSE_NAMES),
    "reference": REFERENCE_NAMES,
}


OF_STEPS = (SCORE, "scirecipe")
"""Tasks that compare with steps: an array in place of their reference has alternatives."""


class Answers(NamedTuple):
    """The rows of a file: valid records of the task, and faults."""

    records: list[dict[str, Any]]
    locations: list[Location]
    """The location of each record."""
    faults: list[tuple[Location, Fault]]
    aliases: dict[str, str]
    """Task fields found under another name, with that name."""


def read_answers(source: SourceFile, task: Task, mapping: Mapping[str, str]) -> Answers:
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
    return task.unfolded(record)


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
    reference = record.get("reference")
    if alternatives_of(reference_of(reference) if task.name in OF_STEPS else reference) is not None:
        return record, Fault("bad_reference", "reference: evaluations take no alternatives"), None
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


TASK = "task"
EXPLAIN_FIELDS = frozenset({"response", "reference", "config", "suggestions", TASK})


class AnswerChoice(NamedTuple):
    """The rows that are explained: the one with a number or an id, or the `worst` by reward; by default the first."""

    number: int | None = None
    id: str | None = None
    worst: int | None = None


class ChosenRow(NamedTuple):
    """A row to explain, its id (empty if it has none), and the settings that its document names, else None."""

    rollout: Rollout
    id: str
    config: Any = None


def chosen_rows(
    source: SourceFile,
    fields: Fields,
    choice: AnswerChoice,
    task_field: str | None,
    rewards_of: Callable[[Sequence[Rollout], Any], Sequence[float]],
) -> list[ChosenRow]:
    """Read the chosen rows, the worst first; a row that cannot be explained has a fault.

    All rows with a fault come before the worst ones. A row of another task than SCORE has a fault.
    task_field: the field of a row's task; by default `task`, if its value is a task that gives rewards.
    rewards_of: returns the rewards of rows without a fault under settings of a request, and gives a fault to the
    others.
    Raises DocumentError if there is no such row.
    """
    holder = (task_field or TASK, (task_field or TASK).partition(".")[0])
    columns = [*fields[:2], *RESPONSE_NAMES, *REFERENCE_NAMES, *PROMPT_NAMES, *TRAINER_FIELDS, *holder, "id"]
    with open_records(source, columns) as records:
        request = _request_of(records.document)
        if request is not None:
            fields, task_field = Fields(), TASK
        names = records.columns
        if names is not None and task_field is not None and not any(name in names for name in holder):
            raise DocumentError(f"exactly one column {holder[1]!r} is required")
        config = None if request is None else _score_config(request)

        def read(record: Record) -> ChosenRow:
            identifier = record_id(unfolded(record.value)) if isinstance(record.value, dict) else ""
            if names is not None:
                return ChosenRow(_read_columns(record, list(names), fields, task_field), identifier)
            rollout = _read(record, fields, task_field)
            is_request_of_explain = rollout.fault is None and {"config"} <= rollout.names <= EXPLAIN_FIELDS
            own = record.value["config"] if config is None and is_request_of_explain else config
            return ChosenRow(rollout, identifier, own)

        if choice.worst is not None:
            return _worst(map(read, records.rows), choice.worst, lambda rollouts: rewards_of(rollouts, config))
        if choice.id is None:
            return [read(_numbered(records, source, choice.number))]
        row = next((row for row in map(read, records.rows) if row.id == choice.id), None)
        if row is None:
            raise DocumentError(f"no row has the id {choice.id}")
        return [row]


def _worst(
    rows: Iterator[ChosenRow], most: int, rewards_of: Callable[[Sequence[Rollout]], Sequence[float]]
) -> list[ChosenRow]:
    """Return the rows with a fault, and the `most` rows with the lowest rewards; of equal ones, the first."""
    faulty: list[ChosenRow] = []
    lowest: list[tuple[float, ChosenRow]] = []
    while piece := list(islice(rows, PIECE_ROWS)):
        rewards = iter(rewards_of([row.rollout for row in piece]))
        faulty += [row for row in piece if row.rollout.fault is not None]
        scored = [(next(rewards), row) for row in piece if row.rollout.fault is None]
        lowest = heapq.nsmallest(most, [*lowest, *scored], key=itemgetter(0))  # stable: the first of equal rewards
    if not lowest and not faulty:
        raise DocumentError("the file has no rows")
    return [*faulty, *(row for _, row in lowest)]


def _request_of(document: str) -> dict[str, Any] | None:
    """Return the request of POST /v1/score in a document, None for another object."""
    try:
        value = orjson.loads(document) if document else {}
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise DocumentError("not JSON, or neither a row nor an array of rows")
    return value if is_request(value) else None


def _numbered(records: Records, source: SourceFile, number: int | None) -> Record:
    """Return the record with a number; raises DocumentError if there is none."""
    counted = "row" if is_columnar(source.format) else "line" if source.format == "jsonl" else "record"
    for record in records.rows:
        counted = record.location.kind
        if number in (None, record.location.number):
            return record
        if number is not None and record.location.number > number:
            break
    if number is None:
        raise DocumentError("the file has no rows")
    raise DocumentError(f"{counted} {number} does not exist{' or is blank' if counted == 'line' else ''}")


def _read(record: Record, fields: Fields, task_field: str | None) -> Rollout:
    """Return the rollout of a record, with the fields under their usual names."""
    rollout = rollout_of(record)
    if rollout.fault is not None:
        return rollout
    row = unfolded(record.value)
    rollout.fault = _task_fault(row, task_field)
    if rollout.fault is None:
        try:
            rollout.fault = fill_rollout(rollout, row, find_fields(fields, [row]))
        except FieldError as error:
            rollout.fault = Fault("missing_field", str(error))
    return rollout


def _read_columns(record: Record, names: list[str], fields: Fields, task_field: str | None) -> Rollout:
    """Return the rollout of a row of columns with these names; raises FieldError if they lack a field."""
    row = unfolded(record.value)
    fields = find_fields(fields, [{**dict.fromkeys(names), **row}], "column")
    rollout = Rollout(record.location, b"", response=row[fields.response])
    rollout.reference = reference_of(row[fields.reference], in_column=True)
    rollout.fault = _task_fault(row, task_field)
    if rollout.fault is None and not isinstance(rollout.response, str):
        rollout.fault = Fault("not_a_string", "the response is not a string")
    return rollout


def _task_fault(row: Mapping[str, Any], task_field: str | None) -> Fault | None:
    """Return the fault of a row whose task is not SCORE; without a given field, `task` may be something else."""
    task, fault = task_at(row, task_field or TASK)
    if fault is not None or (task_field is None and not isinstance(row.get(TASK), str)):
        return fault if task_field is not None else None
    if task == SCORE:
        return None
    instead = f"`assay score --task {task}` gives its reward and reason"
    return Fault("unknown_task", f"only rewards of {SCORE} are explained; {instead}")


def _score_config(request: dict[str, Any]) -> Any:
    """Return the settings of a request's rows of SCORE; options of other tasks are under their names."""
    config = request.get("config")
    if isinstance(config, dict) and isinstance(request.get(TASK), list):
        return {name: value for name, value in config.items() if name not in REWARD_TASKS}
    return config

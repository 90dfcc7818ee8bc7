"""Reads one row of a file of rollouts."""

from __future__ import annotations

from itertools import islice
from typing import Any

import orjson

from ..rewards.registry import REWARD_TASKS, SCORE
from .field_names import FieldError, find_fields, objects_in
from .formats import is_columnar
from .row_tasks import task_at
from .rows.rows import (
    BYTE_ORDER_MARK,
    DocumentError,
    Fault,
    Fields,
    Location,
    Rollout,
    Row,
    array_rows,
    decode_row,
    json_document,
    jsonl_rows,
    open_source,
    read_rollout,
)
from .rows.wrong_files import require_document

__all__ = ["single_rollout"]

MAX_LINE = 64 * 2**20
TASK = "task"
EXPLAIN_FIELDS = frozenset({"response", "reference", "config", "suggestions", TASK})


def single_rollout(
    source: str, fmt: str | None, fields: Fields, number: int | None, task_field: str | None = None
) -> tuple[Rollout, Any]:
    """Read the row with this number: JSONL lines count from 1, everything else from 0; None for the first.

    Returns the row and, if its document is a request, the settings in it, else None. A row of another task than SCORE
    has a fault.
    task_field: the field of a row's task; by default `task`, if its value is a task that gives rewards.
    fmt: one of `formats.FORMATS`; None to tell JSON from JSONL by the first line. JSON may be one row, an array of
    rows, a request of POST /v1/score, whose responses are the rows, or one of POST /v1/explain.
    Raises DocumentError if there is no such row.
    """
    if fmt is not None and is_columnar(fmt):
        return _columnar(source, fields, number or 0, task_field), None
    with open_source(source, fmt) as (stream, _):
        first = stream.readline(MAX_LINE + 1) if fmt is None else b""
        if fmt == "json" or (fmt is None and not _is_row(first)):
            content = first + stream.read()
            require_document(json_document(content), source)
            return _of_document(content, fields, number or 0, task_field)
        for row in jsonl_rows(stream, MAX_LINE, first):
            if number is None or row.location.number == number:
                return _with_own_config(_read(row, fields, task_field))
            if row.location.number > number:
                break
    if number == 0:
        raise DocumentError("line 0 does not exist; lines count from 1")
    raise DocumentError("the file has no rows" if number is None else f"line {number} does not exist or is blank")


def _read(row: Row, fields: Fields, task_field: str | None) -> Rollout:
    """Parse a row, with the fields under their usual names."""
    record, _ = decode_row(row, MAX_LINE)
    if isinstance(record, dict) and (fault := _task_fault(record, task_field)):
        return Rollout(row.location, b"", fault=fault)
    try:
        return read_rollout(row, find_fields(fields, objects_in([row], MAX_LINE)), MAX_LINE)
    except FieldError as error:
        return Rollout(row.location, b"", fault=Fault("missing_field", str(error)))


def _task_fault(row: dict[str, Any], task_field: str | None) -> Fault | None:
    """Return the fault of a row whose task is not SCORE; without a given field, `task` may be something else."""
    task, fault = task_at(row, task_field or TASK)
    if fault is not None or (task_field is None and not isinstance(row.get(TASK), str)):
        return fault if task_field is not None else None
    if task == SCORE:
        return None
    instead = f"`assay score --task {task}` gives its reward and reason"
    return Fault("unknown_task", f"only rewards of {SCORE} are explained; {instead}")


def _is_row(line: bytes) -> bool:
    """Return whether a line is a complete row, not (part of) a document."""
    try:
        value = orjson.loads(line.removeprefix(BYTE_ORDER_MARK))
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and not _is_request(value)


def _is_request(value: dict[str, Any]) -> bool:
    return "responses" in value and "references" in value


def _of_document(content: bytes, fields: Fields, number: int, task_field: str | None) -> tuple[Rollout, Any]:
    document = json_document(content)
    try:
        value = orjson.loads(document)
    except orjson.JSONDecodeError:
        value = None
    config = None
    if isinstance(value, dict) and _is_request(value):
        document, fields, task_field, config = _as_rows(value), Fields(), TASK, _score_config(value)
    elif isinstance(value, dict):
        document = f"[{document}]"
    elif not document.lstrip().startswith("["):
        raise DocumentError("not JSON, or neither a row nor an array of rows")
    row = next(islice(array_rows(document), number, None), None)
    if row is None:
        raise DocumentError(f"there is no record {number}")
    rollout = _read(row, fields, task_field)
    return (rollout, config) if config is not None else _with_own_config(rollout)


def _with_own_config(rollout: Rollout) -> tuple[Rollout, Any]:
    """Return a row, with its settings if it is a request of POST /v1/explain; `config` of other rows is ignored."""
    if rollout.fault is None and "config" in rollout.names and rollout.names <= EXPLAIN_FIELDS:
        return rollout, orjson.loads(rollout.text)["config"]
    return rollout, None


def _as_rows(request: dict[str, Any]) -> str:
    """Return the responses of a request, each with its reference, as a JSON array of rows."""
    responses, references, index = (request.get(name) for name in ("responses", "references", "reference_index"))
    if not isinstance(responses, list) or not isinstance(references, list):
        raise DocumentError("references and responses of a request must be arrays")
    if not index:
        index = [0] * len(responses) if len(references) == 1 else range(len(responses))
    try:
        chosen = [references[k] for k in index if k >= 0]
        rows = [{"response": a, "reference": b} for a, b in zip(responses, chosen, strict=True)]
        if isinstance(tasks := request.get(TASK), list):
            rows = [row | {TASK: task} for row, task in zip(rows, tasks, strict=True)]
        else:
            rows = [row | {TASK: tasks} for row in rows]
    except (IndexError, TypeError, ValueError):
        raise DocumentError("reference_index or task does not fit references and responses") from None
    return orjson.dumps(rows).decode()


def _score_config(request: dict[str, Any]) -> Any:
    """Return the settings of a request's rows of SCORE; those of other tasks are under their names."""
    config = request.get("config")
    if isinstance(config, dict) and isinstance(request.get(TASK), list):
        return {name: value for name, value in config.items() if name not in REWARD_TASKS}
    return config


def _columnar(source: str, fields: Fields, number: int, task_field: str | None) -> Rollout:
    from .columns.source import open_columns  # needs the extra

    with open_columns(source) as columns:
        names = list(find_fields(fields, [columns.schema.names], "column")[:2])
        there = columns.schema.names
        holder = task_field or TASK
        holder = holder if holder in there else holder.partition(".")[0]  # a path into a struct
        columns.require(names if task_field is None else [*names, holder])
        names += [holder] if holder in there else []
        row = next(islice(columns.records(names), number, None), None)
    if row is None:
        raise DocumentError(f"there is no row {number}")
    rollout = Rollout(Location("row", number), b"", response=row[names[0]], reference=row[names[1]])
    rollout.fault = _task_fault(row, task_field)
    if rollout.fault is None and not isinstance(rollout.response, str):
        rollout.fault = Fault("not_a_string", "the response is not a string")
    return rollout

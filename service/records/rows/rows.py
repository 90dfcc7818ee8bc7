"""One record of a file, where it is, and the rollout that is made of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from ...errors import InvalidRequest, Issue, row_of
from ...rewards.registry import REWARD_TASKS, SCORE
from ...scoring.labels import read_label
from ...scoring.references import ANY_OF

PIECE_ROWS = 2_048
PIECE_BYTES = 16 * 2**20
SAMPLE_ROWS = 100
"""Rows by which fields are found."""


class Fault(NamedTuple):
    """Why a row has no reward: a machine-readable reason and a sentence."""

    reason: str
    detail: str


NO_GROUP = Fault("wrong_type", "group: it is null")
"""A row of no group: others that lack one need not answer the same prompt."""

RESULT_NAMES = frozenset({"reward", "reason", "components", "advantage", "error"})
"""Fields added to rows; they replace the input's fields with these names."""

STEP_RESULTS = ("steps", "alternative")
"""Fields added to rows if steps are asked for; they replace only those of earlier results."""


class Location(NamedTuple):
    """The location of a row: a `line` (JSONL), a `record` (JSON) or a `row` (columns); all count from 1."""

    kind: str
    number: int

    def within(self, name: str) -> str:
        """Format the location in the file `name`: `name:17`, or `name#17`."""
        return f"{name}:{self.number}" if self.kind == "line" else f"{name}#{self.number}"


class RowPlace(NamedTuple):
    """A row of a file, under the file's name in messages."""

    source: str
    location: Location

    def __str__(self) -> str:
        return self.location.within(self.source)

    def document(self) -> dict[str, Any]:
        """Return the place for JSON."""
        return {"source": self.source, self.location.kind: self.location.number}


class Record(NamedTuple):
    """One record: its value (an object, if the file is as it should be), or the fault that prevents reading it."""

    location: Location
    value: Any
    fault: Fault | None = None
    size: int = 1
    """Its share of the size of the file."""
    text: bytes | None = None
    """The row of a JSONL or JSON file as it is written, on one line; None for a line above the limit and in columns."""


class Fields(NamedTuple):
    """Field names of a row; without `group`, rows with equal references are a group."""

    response: str = "response"
    reference: str = "reference"
    group: str | None = None


@dataclass(slots=True)
class Rollout:
    """One row: its text on one line (empty if it is not an object), and its fields or its fault."""

    location: Location
    text: bytes
    _: KW_ONLY
    names: frozenset[str] = frozenset()
    response: str = ""
    reference: Any = None
    group: Any = None
    fault: Fault | None = None
    task: str = "score"


class HasSize(Protocol):
    @property
    def size(self) -> int: ...


AnyRow = TypeVar("AnyRow", bound=HasSize)


def pieces(rows: Iterable[AnyRow], max_rows: int = PIECE_ROWS, max_bytes: int = PIECE_BYTES) -> Iterator[list[AnyRow]]:
    """Yield lists of consecutive rows within both limits, each with at least one row."""
    piece: list[AnyRow] = []
    held = 0
    for row in rows:
        if piece and (len(piece) >= max_rows or held + row.size > max_bytes):
            yield piece
            piece, held = [], 0
        piece.append(row)
        held += row.size
    if piece:
        yield piece


def peek(rows: Iterator[AnyRow]) -> tuple[list[AnyRow], Iterator[AnyRow]]:
    """Return the first rows, at most `SAMPLE_ROWS` and about `PIECE_BYTES`, and all rows including them."""
    first: list[AnyRow] = []
    size = 0
    for row in rows:
        first.append(row)
        size += row.size
        if len(first) == SAMPLE_ROWS or size >= PIECE_BYTES:
            break
    return first, chain(first, rows)


def rollout_of(record: Record) -> Rollout:
    """Return a rollout whose fields are still to be filled, or one with the fault that prevents it."""
    if record.fault is None and isinstance(record.value, dict):
        return Rollout(record.location, record.text or b"", names=frozenset(record.value))
    fault = record.fault or Fault("not_an_object", "the row is not a JSON object")
    return Rollout(record.location, b"", fault=fault)


def without_nulls(value: Any) -> Any:
    """Return an object without its fields that are null: in columns, every row has every field."""
    return {name: part for name, part in value.items() if part is not None} if isinstance(value, dict) else value


def missing_fields(names: Iterable[str | None], record: Collection[str]) -> Fault | None:
    """Return the fault of a record that lacks some of these fields."""
    missing = [name for name in names if name is not None and name not in record]
    return Fault("missing_field", f"no field {', '.join(map(repr, missing))}") if missing else None


def fill_rollout(rollout: Rollout, record: Mapping[str, Any], fields: Fields) -> Fault | None:
    """Fill the fields of a rollout of SCORE from its record; return the fault that prevents it."""
    if fault := missing_fields(fields, record):
        return fault
    if not isinstance(record[fields.response], str):
        return Fault("not_a_string", f"the field {fields.response!r} is not a string")
    rollout.response = record[fields.response]
    rollout.reference = reference_of(record[fields.reference], rollout.location.kind == "row")
    named = rollout.reference.get("task") if isinstance(rollout.reference, dict) else None
    if isinstance(named, str) and named in REWARD_TASKS:
        return Fault("other_task", f"reference: its label names the task {named}, but it is scored as {SCORE}")
    return set_group(rollout, rollout.reference, record, fields)


def reference_of(value: Any, in_column: bool = False) -> Any:
    """Return a reference of SCORE as scorers take it.

    in_column: whether objects have every field that others have, null where they lack it.
    """
    reference = {ANY_OF: value} if isinstance(value, list) else value
    if in_column and isinstance(reference, dict):
        reference = {name: without_nulls(part) for name, part in reference.items() if part is not None}
        if isinstance(entries := reference.get(ANY_OF), list):
            reference[ANY_OF] = list(map(without_nulls, entries))
    return read_label(reference).reference


def set_group(rollout: Rollout, group: Any, record: Mapping[str, Any], fields: Fields) -> Fault | None:
    """Set the group of a rollout from its field, or without one to `group`; return the fault of a null group."""
    rollout.group = group if fields.group is None else record[fields.group]
    if fields.group is not None and isinstance(rollout.group, float):
        with suppress(ValueError, RecursionError, KeyError):  # orjson reads integers of more than 64 bits as floats
            rollout.group = json.loads(rollout.text)[fields.group]
    return NO_GROUP if fields.group is not None and rollout.group is None else None


def reference_faults(issues: Iterable[Issue], about: str = ": ") -> dict[int, Fault]:
    """Return the fault of each invalid reference by its row: of all its alternatives, with the reason of the first.

    about: what is between "reference", or "reference.any_of[1]" for an alternative, and what is wrong with it.
    """
    faults: dict[int, Fault] = {}
    for issue in issues:
        row, alternative = row_of(issue), issue.path.partition("]")[2]
        detail = f"reference{alternative}{about}{issue.detail}"
        reason, details = faults.get(row, Fault(issue.reason, ""))
        faults[row] = Fault(reason, f"{details}; {detail}" if details else detail)
    return faults


def value_key(value: Any) -> str | bytes:
    """Return a hashable key that is equal for equal JSON values, ignoring the order of names."""
    if isinstance(value, str):
        return value
    return b"%d" % value if type(value) is int else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def value_digest(value: Any) -> bytes:
    """Return 16 bytes that are equal for equal JSON values: instead of `value_key`, which is as long as its text."""
    key = value_key(value)
    content = b"s" + key.encode("utf-8", "replace") if isinstance(key, str) else b"j" + key
    return blake2b(content, digest_size=16).digest()


def numbered(numbers: dict[str | bytes, int], value: Any) -> int:
    """Return the number of a JSON value; values are numbered from 0 in the order of their first occurrence."""
    return numbers.setdefault(value_key(value), len(numbers))


def earlier_results(names: Collection[str]) -> frozenset[str]:
    """Return which of the fields of a row are results of an earlier run, which new ones replace."""
    has_steps = {"reward", "reason", *STEP_RESULTS} <= set(names)
    return RESULT_NAMES.union(STEP_RESULTS if has_steps else ()).intersection(names)


def with_results(rollout: Rollout, results: Mapping[str, Any]) -> bytes:
    """Return the row as one line of JSON without line end, with `results` after the fields of the input.

    The fields of the input are copied as text, so that no number or spelling changes. Raises InvalidRequest if one of
    them has the name of a result without being one.
    """
    added = orjson.dumps(results)
    text = rollout.text
    earlier = earlier_results(rollout.names)
    if taken := sorted(rollout.names.intersection(results) - earlier):
        detail = f"rows have fields with the names of results: {', '.join(taken)}"
        raise InvalidRequest([Issue("include", "name_taken", detail)])
    if earlier:
        record = {name: value for name, value in json.loads(text).items() if name not in earlier}
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
    body = text[1:-1].strip()
    return b"{" + body + (b"," if body else b"") + added[1:]


def error_row(rollout: Rollout) -> bytes:
    """Return the row with `error` instead of results; only `error` if it is not an object."""
    assert rollout.fault is not None
    error = {**rollout.fault._asdict(), rollout.location.kind: rollout.location.number}
    return with_results(rollout, {"error": error}) if rollout.text else orjson.dumps({"error": error})

"""Reads rollouts from JSONL and JSON, in pieces that fit into memory.

A row is a JSON object with a response and a reference; other fields are kept unchanged.
An invalid row becomes a rollout with a fault and does not affect other rows.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import orjson

from ...errors import Issue, row_of
from .wrong_files import (
    BYTE_ORDER_MARK,
    FROM_LATIN_1,
    HEAD_BYTES,
    DocumentError,
    beginning_of,
    require_document,
    require_json,
    text_fault,
)

__all__ = [
    "BYTE_ORDER_MARK",
    "PIECE_BYTES",
    "PIECE_ROWS",
    "AnyRow",
    "DocumentError",
    "Fault",
    "Fields",
    "Location",
    "Rollout",
    "Row",
    "array_rows",
    "decode_rollout",
    "decode_row",
    "json_document",
    "jsonl_rows",
    "missing_fields",
    "open_rows",
    "open_source",
    "pieces",
    "read_rollout",
    "reference_faults",
]

PIECE_ROWS = 2_048
PIECE_BYTES = 16 * 2**20

JSON_WHITESPACE = " \t\r\n"
SCANNER = json.JSONDecoder(parse_int=float)
"""Finds the end of a value; accepts integers of any length."""


class Fault(NamedTuple):
    """Why a row has no reward: a machine-readable reason and a sentence."""

    reason: str
    detail: str


NO_GROUP = Fault("wrong_type", "group: it is null")
"""A row of no group: others that lack one need not answer the same prompt."""


class Location(NamedTuple):
    """The location of a row: `line` counts from 1 (JSONL), `record` (JSON) and `row` (columns) from 0."""

    kind: str
    number: int

    def within(self, name: str) -> str:
        """Format the location in the file `name`: `name:17` or `name[16]`."""
        return f"{name}:{self.number}" if self.kind == "line" else f"{name}[{self.number}]"


class Place(NamedTuple):
    """A row of a file, under the file's name in messages."""

    source: str
    location: Location

    def __str__(self) -> str:
        return self.location.within(self.source)

    def document(self) -> dict[str, Any]:
        """Return the place for JSON."""
        return {"source": self.source, self.location.kind: self.location.number}


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
    names: frozenset[str] = frozenset()
    response: str = ""
    reference: Any = None
    group: Any = None
    fault: Fault | None = None
    task: str = "score"


class Row(NamedTuple):
    """One row before decoding; `text` is None for a line above the limit. `size` is in bytes of input."""

    location: Location
    text: bytes | None
    size: int


class HasSize(Protocol):
    """A row before or after decoding."""

    @property
    def size(self) -> int: ...


AnyRow = TypeVar("AnyRow", bound=HasSize)


@contextmanager
def open_source(source: str, fmt: str | None) -> Iterator[tuple[BinaryIO, int | None]]:
    """Open a file of JSON or JSONL, or standard input ("-"); yield the binary stream and its size, None if unknown.

    fmt: `json`, `jsonl`, or None for either. Raises DocumentError for a file that is recognized as another format.
    """
    if source == "-":
        require_json(beginning_of(sys.stdin.buffer), source, fmt)
        yield sys.stdin.buffer, None
        return
    with open(source, "rb", HEAD_BYTES) as stream:
        require_json(beginning_of(stream), source, fmt)
        yield stream, os.fstat(stream.fileno()).st_size or None


@contextmanager
def open_rows(source: str, fmt: str, max_line_bytes: int) -> Iterator[tuple[Iterator[Row] | None, str, int | None]]:
    """Yield the rows of a JSONL or JSON file, None if it is a JSON document without an array; the document; the size.

    The document is empty for JSONL. Raises DocumentError.
    """
    with open_source(source, fmt) as (stream, size):
        if fmt == "jsonl":
            yield jsonl_rows(stream, max_line_bytes), "", size
        else:
            document = json_document(stream.read())
            require_document(document, source)
            has_rows = document.lstrip(JSON_WHITESPACE).startswith("[")
            yield array_rows(document) if has_rows else None, document, size


def jsonl_rows(stream: BinaryIO, max_line_bytes: int, first: bytes = b"") -> Iterator[Row]:
    """Yield the lines that are not blank; `first` is a line that has been read already.

    A line of more than `max_line_bytes` bytes, without its end, is skipped and never held in memory.
    """
    number = 0
    while line := first or stream.readline(max_line_bytes + 1):
        first = b""
        number += 1
        size = len(line)
        location = Location("line", number)
        if size > max_line_bytes and not line.endswith(b"\n"):
            while rest := stream.readline(2**20):
                size += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Row(location, None, size)
            continue
        text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip()
        if text:
            yield Row(location, text, size)


def json_document(content: bytes) -> str:
    """Decode a JSON document; raises DocumentError if it is not UTF-8."""
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start}; {FROM_LATIN_1}") from None


def array_rows(document: str) -> Iterator[Row]:
    """Yield the elements of the array in a JSON document as they are written, each on one line.

    Raises DocumentError if the array or an element is malformed.
    """
    start = _skip_whitespace(document, document.index("[") + 1)
    end = start
    if document[start : start + 1] != "]":
        for number in itertools.count():
            end = _end_of_value(document, start, number)
            text = document[start:end].replace("\n", " ").replace("\r", " ").encode()
            yield Row(Location("record", number), text, len(text))
            end = _skip_whitespace(document, end)
            if document[end : end + 1] == "]":
                break
            if document[end : end + 1] != ",":
                raise DocumentError(f"expected a comma or a closing bracket after record {number}")
            start = _skip_whitespace(document, end + 1)
    if document[end + 1 :].strip(JSON_WHITESPACE):
        raise DocumentError("unexpected text after the array")


def _end_of_value(document: str, start: int, number: int) -> int:
    try:
        _, end = SCANNER.raw_decode(document, start)
    except (ValueError, RecursionError):
        raise DocumentError(f"record {number} is not JSON") from None
    return end


def _skip_whitespace(document: str, pos: int) -> int:
    while pos < len(document) and document[pos] in JSON_WHITESPACE:
        pos += 1
    return pos


def decode_row(row: Row, max_line_bytes: int) -> tuple[Any, Fault | None]:
    """Return the JSON value of a row, parsed strictly (RFC 8259, no lone surrogates), or its fault."""
    if row.text is None:
        return None, Fault("line_too_long", f"the line has more than {max_line_bytes} bytes")
    try:
        return orjson.loads(row.text), None
    except orjson.JSONDecodeError as error:
        place = f"{row.location.kind} {row.location.number}"
        if (recognized := text_fault(row.text)) is not None:
            return None, Fault("not_json", f"{place} {recognized}")
        return None, Fault("not_json", f"{place} is not JSON ({error.msg}, column {error.colno})")


def decode_rollout(row: Row, max_line_bytes: int) -> tuple[Rollout, dict[str, Any]]:
    """Return a rollout whose fields are still to be filled from its record, or one with a fault and no record."""
    record, fault = decode_row(row, max_line_bytes)
    if fault is None and not isinstance(record, dict):
        fault = Fault("not_an_object", "the row is not a JSON object")
    if fault is not None:
        return Rollout(row.location, b"", fault=fault), {}
    return Rollout(row.location, row.text or b"", frozenset(record)), record


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
    rollout.reference = record[fields.reference]
    return set_group(rollout, rollout.reference, record, fields)


def set_group(rollout: Rollout, own: Any, record: Mapping[str, Any], fields: Fields) -> Fault | None:
    """Set the group of a rollout: that of its field, or else its own; return the fault of one that is null."""
    rollout.group = own if fields.group is None else record[fields.group]
    if fields.group is not None and isinstance(rollout.group, float):
        with suppress(ValueError, RecursionError):  # orjson reads integers of more than 64 bits as floats
            rollout.group = json.loads(rollout.text)[fields.group]
    return NO_GROUP if fields.group is not None and rollout.group is None else None


def read_rollout(row: Row, fields: Fields, max_line_bytes: int) -> Rollout:
    """Parse one row; an error becomes its fault."""
    rollout, record = decode_rollout(row, max_line_bytes)
    if rollout.fault is None:
        rollout.fault = fill_rollout(rollout, record, fields)
    return rollout


def reference_faults(issues: Iterable[Issue], about: str = "reference") -> dict[int, Fault]:
    """Return the fault of each invalid reference by its row; its sentence begins with `about`."""
    return {row_of(issue): Fault(issue.reason, f"{about}: {issue.detail}") for issue in issues}


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

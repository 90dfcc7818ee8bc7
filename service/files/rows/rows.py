"""Rollouts out of JSONL and JSON, in pieces that fit into memory.

A row is a JSON object with a response and a reference; what else it holds stays as it stands.
A row that cannot be read is a rollout with a fault: it costs no other row its result.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import orjson

__all__ = [
    "DocumentError",
    "Fault",
    "Fields",
    "Place",
    "Rollout",
    "array_rows",
    "json_document",
    "jsonl_rows",
    "opened",
    "pieces",
    "read_reference",
    "read_rollout",
    "value_key",
]

PIECE_ROWS = 2_048
PIECE_BYTES = 16 * 2**20
PUBLISHED = "key"
"""Field in which SciRecipe publishes a reference."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_SPACE = " \t\r\n"
SCANNER = json.JSONDecoder(parse_int=float)
"""Finds where a value ends; integers of any length pass."""


class DocumentError(ValueError):
    """A JSON document that is broken as a whole, so that it has no rows."""


class Fault(NamedTuple):
    """Why a row has no reward: the machine-readable reason, and a sentence for people."""

    reason: str
    detail: str


class Place(NamedTuple):
    """Where a row stands: `line` counts from 1 (JSONL), `record` (JSON) and `row` (columns) from 0."""

    kind: str
    number: int

    def within(self, name: str) -> str:
        """The place as people and editors write it: `name:17`, or `name[16]`."""
        return f"{name}:{self.number}" if self.kind == "line" else f"{name}[{self.number}]"


class Fields(NamedTuple):
    """The names under which a row holds its parts; without `group`, equal references make a group."""

    response: str = "response"
    reference: str = "reference"
    group: str | None = None


@dataclass(slots=True)
class Rollout:
    """One row: its text on one line (empty where it is not an object), and its parts or its fault."""

    place: Place
    text: bytes
    names: frozenset[str] = frozenset()
    response: str = ""
    reference: Any = None
    group: Any = None
    fault: Fault | None = None


class Row(NamedTuple):
    """One row before it is decoded; `text` is None for a line over the limit. `size` is in bytes of input."""

    place: Place
    text: bytes | None
    size: int


@contextmanager
def opened(source: str) -> Iterator[tuple[BinaryIO, int | None]]:
    """A file, or standard input ("-"), as bytes, and its size, None where that is not known."""
    if source == "-":
        yield sys.stdin.buffer, None
        return
    with open(source, "rb") as stream:
        yield stream, os.fstat(stream.fileno()).st_size or None


def jsonl_rows(stream: BinaryIO, longest: int) -> Iterator[Row]:
    """Lines that are not blank.

    One of more than `longest` bytes, its end not counted, is skipped without being held in memory.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        size = len(line)
        place = Place("line", number)
        if size > longest and not line.endswith(b"\n"):
            while rest := stream.readline(2**20):
                size += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Row(place, None, size)
            continue
        text = (line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line).strip()
        if text:
            yield Row(place, text, size)


def json_document(content: bytes) -> str:
    """The text of a JSON document; raises DocumentError where it is not UTF-8."""
    try:
        return content.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        raise DocumentError(f"not UTF-8 at byte {error.start}") from None


def array_rows(document: str) -> Iterator[Row]:
    """Elements of the array that a JSON document holds, each as it is written there, put on one line.

    Raises DocumentError where the array itself is broken; a broken element cannot be told from that.
    """
    start = _skip_space(document, document.index("[") + 1)
    end = start
    if document[start : start + 1] != "]":
        for number in itertools.count():
            end = _end_of_value(document, start, number)
            text = document[start:end].replace("\n", " ").replace("\r", " ").encode()
            yield Row(Place("record", number), text, len(text))
            end = _skip_space(document, end)
            if document[end : end + 1] == "]":
                break
            if document[end : end + 1] != ",":
                raise DocumentError(f"neither a comma nor a closing bracket after record {number}")
            start = _skip_space(document, end + 1)
    if document[end + 1 :].strip(JSON_SPACE):
        raise DocumentError("there is more text after the array")


def _end_of_value(document: str, start: int, number: int) -> int:
    try:
        _, end = SCANNER.raw_decode(document, start)
    except (ValueError, RecursionError):
        raise DocumentError(f"record {number} is not JSON") from None
    return end


def _skip_space(document: str, position: int) -> int:
    while position < len(document) and document[position] in JSON_SPACE:
        position += 1
    return position


def decoded(row: Row, longest: int) -> tuple[Any, Fault | None]:
    """The JSON value of a row, read strictly (RFC 8259, no lone surrogates), or why there is none."""
    if row.text is None:
        return None, Fault("line_too_long", f"the line has more than {longest} bytes")
    try:
        return orjson.loads(row.text), None
    except orjson.JSONDecodeError as error:
        return None, Fault("not_json", f"{error.msg} (column {error.colno})")


def read_rollout(row: Row, fields: Fields, longest: int) -> Rollout:
    """The parts of one row; what cannot be used becomes its fault."""
    record, fault = decoded(row, longest)
    if fault is None and not isinstance(record, dict):
        fault = Fault("not_an_object", "the row is JSON, but no object")
    if fault is not None:
        return Rollout(row.place, b"", fault=fault)
    rollout = Rollout(row.place, row.text or b"", frozenset(record))
    wanted = [fields.response, fields.reference, *([fields.group] if fields.group is not None else [])]
    missing = [name for name in wanted if name not in record]
    if missing:
        rollout.fault = Fault("missing_field", f"no field {', '.join(map(repr, missing))}")
    elif not isinstance(record[fields.response], str):
        rollout.fault = Fault("not_a_string", f"the field {fields.response!r} is no string")
    else:
        rollout.response = record[fields.response]
        rollout.reference = record[fields.reference]
        rollout.group = record[fields.reference if fields.group is None else fields.group]
    return rollout


def read_reference(row: Row, field: str, longest: int) -> tuple[Rollout, dict[str, Any] | None]:
    """A row as the references of a data set: a row with the field, or the reference itself, as text or as steps.

    The response is the reference, where that is text: what a model gets that gives the expected answer. Beside it
    stands the row, where it is a record; one of SciRecipe, as it is published, keeps its reference in `key`.
    """
    record, fault = decoded(row, longest)
    rollout = Rollout(row.place, b"", fault=fault)
    if fault is not None:
        return rollout, None
    reference, whole = record, None
    if isinstance(record, dict) and "steps" not in record:
        whole = record
        if field in record:
            reference = record[field]
        elif isinstance(record.get(PUBLISHED), str):
            reference = record[PUBLISHED]
        else:
            rollout.fault = Fault("missing_field", f"no field {field!r}")
            return rollout, record
    rollout.reference = reference
    rollout.response = reference if isinstance(reference, str) else ""
    return rollout, whole


def value_key(value: Any) -> str | bytes:
    """A hashable key, equal for equal JSON values whatever the order of their names."""
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def pieces(
    rows: Iterable[Row], rows_at_most: int = PIECE_ROWS, bytes_at_most: int = PIECE_BYTES
) -> Iterator[list[Row]]:
    """Consecutive rows, as many at a time as both limits allow, and always at least one."""
    piece: list[Row] = []
    held = 0
    for row in rows:
        if piece and (len(piece) >= rows_at_most or held + row.size > bytes_at_most):
            yield piece
            piece, held = [], 0
        piece.append(row)
        held += row.size
    if piece:
        yield piece

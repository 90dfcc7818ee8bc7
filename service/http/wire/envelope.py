"""The body of a JSON request, parsed into text columns and small values."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from ....kernels.column import TextColumn, frozen
from ....kernels.json_text.columns import FROM_STEPS, NO_STEP_GIVEN, NOT_STEPS, STEPS_TOO_LONG, WRONG_TYPE
from ....kernels.json_text.envelope import COLUMN, FIELDS, NOT_AN_OBJECT, NOT_JSON, TOO_MANY, VALUE, read_envelope

__all__ = ["MAX_UNKNOWN", "Envelope", "NotJsonError", "TooManyError", "open_envelope"]

MAX_UNKNOWN = 256
MAX_VALUE_BYTES = 1 << 20
PER_RESPONSE = ("reference_index", "task", "groups")
"""Fields with an entry for each response."""
BYTES_PER_ENTRY = 128
"""Room for the name of a group or a task, or an index of at most 2^63, with generous whitespace."""
FREE_BRACKETS = 4_096
MIN_BRACKET_BYTES = 8
"""Minimum bytes of a value per bracket beyond the free ones: empty arrays take some twenty times their text."""

REASONS = {
    WRONG_TYPE: "wrong_type",
    NOT_STEPS: "bad_step_schema",
    NO_STEP_GIVEN: "no_steps",
    STEPS_TOO_LONG: "too_long",
}


class NotJsonError(ValueError):
    """The body is not JSON."""


class TooManyError(ValueError):
    """The named field has too many elements, or more bytes than a value of its kind can need."""


@dataclass(slots=True)
class Envelope:
    """The fields of a body. A column is None if its field is missing or not an array."""

    is_object: bool = True
    references: TextColumn | None = None
    responses: TextColumn | None = None
    reference_kinds: np.ndarray | None = None
    """uint8 (references,): `FIT` for text, `FROM_STEPS` for steps, which became text, else a fault: the text is then
    the JSON of the reference, which may be a record of another task."""
    invalid_rows: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By column, the rows that are neither text nor steps, with the reason; the text of a response is undefined."""
    not_arrays: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """Values of the other known fields, as Python objects."""
    unknown: list[str] = field(default_factory=list)


def open_envelope(body: bytes | bytearray | memoryview, max_rows: int, max_reference_bytes: int) -> Envelope:
    """Parse a JSON body (RFC 8259) without holding the GIL; raise NotJsonError, and TooManyError naming the field."""
    data = frozen(np.frombuffer(body, np.uint8), np.uint8)
    capacity = min(max_rows, data.shape[0] // 3 + 1)
    fields = np.empty((len(FIELDS), 3), np.int64)
    unknown = np.empty((MAX_UNKNOWN + 1, 2), np.int64)
    texts = np.empty((2, 5 * data.shape[0] + 64), np.uint8)
    offsets = np.empty((2, capacity + 1), np.int64)
    kinds = np.empty((2, capacity), np.uint8)
    scratch = np.empty(data.shape[0] + 64, np.uint8)
    outcome = read_envelope(fields, unknown, texts, offsets, kinds, scratch, data, max_reference_bytes)
    if outcome == NOT_JSON:
        raise NotJsonError
    if outcome == NOT_AN_OBJECT:
        return Envelope(is_object=False)
    if outcome == TOO_MANY:
        raise TooManyError(FIELDS[int(np.argmin(fields[:2, 1]))])
    envelope = Envelope()
    for row, name in enumerate(FIELDS):
        state, first, second = fields[row].tolist()
        if state == COLUMN:
            end = int(offsets[row, first])
            column = TextColumn.of(texts[row, :end], offsets[row, : first + 1])
            setattr(envelope, name, column)
            if second:
                rows = np.flatnonzero(kinds[row, :first] > FROM_STEPS)
                envelope.invalid_rows[name] = [(k, REASONS[int(kinds[row, k])]) for k in rows.tolist()]
            if name == "references":
                envelope.reference_kinds = kinds[row, :first]
        elif state == VALUE and row < len(texts):
            envelope.not_arrays.append(name)
        elif state == VALUE:
            envelope.values[name] = _value(body, name, first, second, max_rows)
    count = min(int(unknown[0, 0]), MAX_UNKNOWN)
    names = (orjson.loads(bytes(body[start:stop])) for start, stop in unknown[1 : count + 1].tolist())
    envelope.unknown = list(dict.fromkeys(names))
    return envelope


def _value(body: bytes | bytearray | memoryview, name: str, start: int, stop: int, max_rows: int) -> Any:
    """Parse the value `body[start:stop]`; raise TooManyError if it is large, as objects take much more memory."""
    allowed = max(MAX_VALUE_BYTES, BYTES_PER_ENTRY * max_rows) if name in PER_RESPONSE else MAX_VALUE_BYTES
    if stop - start > allowed:
        raise TooManyError(name)
    value = bytes(body[start:stop])
    if value.count(b"[") + value.count(b"{") > FREE_BRACKETS + len(value) // MIN_BRACKET_BYTES:
        raise TooManyError(name)
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:  # a number that no double can represent
        raise NotJsonError from None
    if name == "groups" and isinstance(parsed, list) and float in set(map(type, parsed)):
        with suppress(ValueError, RecursionError):
            return json.loads(value)  # orjson reads integers of more than 64 bits as floats
    return parsed

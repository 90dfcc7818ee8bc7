"""A request's body as columns and a few small values: what every later station works on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from ....kernels.column import TextColumn, frozen
from ....kernels.json_text.columns import FIT, NO_STEP_GIVEN, NOT_STEPS, STEPS_TOO_LONG, WRONG_TYPE
from ....kernels.json_text.envelope import COLUMN, FIELDS, NOT_AN_OBJECT, NOT_JSON, TOO_MANY, VALUE, read_envelope

__all__ = ["MAX_UNKNOWN", "Envelope", "NotJsonError", "TooManyError", "open_envelope"]

MAX_UNKNOWN = 256
MAX_VALUE_BYTES = 1 << 20
BYTES_AN_INDEX = 24
"""An index of at most 2^63 with generous white space."""

FAULTS = {
    WRONG_TYPE: "wrong_type",
    NOT_STEPS: "bad_step_schema",
    NO_STEP_GIVEN: "no_steps",
    STEPS_TOO_LONG: "too_long",
}


class NotJsonError(ValueError):
    """The body is not JSON."""


class TooManyError(ValueError):
    """The field named has more elements than may be, or more bytes than a value of its kind can need."""


@dataclass(slots=True)
class Envelope:
    """What a body holds. A column is None where its field is absent or no array."""

    is_object: bool = True
    references: TextColumn | None = None
    responses: TextColumn | None = None
    faults: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """For each column, the rows that are no text (or no steps), with the reason; their text means nothing."""
    misfits: list[str] = field(default_factory=list)
    """Columns whose field is there, but no array."""
    values: dict[str, Any] = field(default_factory=dict)
    """Every other known field that is there, as a Python value."""
    unknown: list[str] = field(default_factory=list)
    """Names of unknown fields, the first `MAX_UNKNOWN` of them."""


def open_envelope(body: bytes | bytearray | memoryview, most: int, most_reference_bytes: int) -> Envelope:
    """Read a JSON body of up to `most` responses and as many references, without holding the interpreter.

    Raises NotJsonError where it is not JSON in UTF-8 (RFC 8259), and TooManyError naming the field.
    """
    data = frozen(np.frombuffer(body, np.uint8), np.uint8)
    room = min(most, data.shape[0] // 3 + 1)
    fields = np.empty((len(FIELDS), 3), np.int64)
    unknown = np.empty((MAX_UNKNOWN + 1, 2), np.int64)
    texts = np.empty((2, 5 * data.shape[0] + 64), np.uint8)
    offsets = np.empty((2, room + 1), np.int64)
    faults = np.empty((2, room), np.uint8)
    scratch = np.empty(data.shape[0] + 64, np.uint8)
    outcome = read_envelope(fields, unknown, texts, offsets, faults, scratch, data, most_reference_bytes)
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
                rows = np.flatnonzero(faults[row, :first] != FIT)
                envelope.faults[name] = [(k, FAULTS[int(faults[row, k])]) for k in rows.tolist()]
        elif state == VALUE and row < len(texts):
            envelope.misfits.append(name)
        elif state == VALUE:
            envelope.values[name] = _value(body, name, first, second, most)
    count = min(int(unknown[0, 0]), MAX_UNKNOWN)
    names = (orjson.loads(bytes(body[start:stop])) for start, stop in unknown[1 : count + 1].tolist())
    envelope.unknown = list(dict.fromkeys(names))
    return envelope


def _value(body: bytes | bytearray | memoryview, name: str, start: int, stop: int, most: int) -> Any:
    """The small value `body[start:stop]`; a large one would cost many times its bytes as Python objects."""
    allowed = max(MAX_VALUE_BYTES, BYTES_AN_INDEX * most) if name == "reference_index" else MAX_VALUE_BYTES
    if stop - start > allowed:
        raise TooManyError(name)
    try:
        return orjson.loads(bytes(body[start:stop]))
    except orjson.JSONDecodeError:  # a number beyond every double
        raise NotJsonError from None

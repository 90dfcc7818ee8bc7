"""Reads the JSON body of a request in one pass without the GIL: texts into columns, other fields as spans.

The whole body is validated against RFC 8259 and RFC 3629. The other fields are small and left to a JSON library.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel
from .columns import BODY_DEPTH, OVERFULL, read_column
from .scanner import (
    BAD,
    CLOSE_OBJECT,
    OPEN_ARRAY,
    OPEN_OBJECT,
    is_name,
    next_value,
    open_value,
    read_name,
    skip_value,
    skip_whitespace,
)

__all__ = ["ABSENT", "COLUMN", "FIELDS", "NOT_AN_OBJECT", "NOT_JSON", "READ", "TOO_MANY", "VALUE", "read_envelope"]

FIELDS = ("references", "responses", "reference_index", "config", "include", "task", "groups", "configs")
REFERENCES, RESPONSES = 0, 1
UNKNOWN = -1
_NAMES = tuple(np.frombuffer(name.encode(), np.uint8) for name in FIELDS)

# Outcomes.
READ, NOT_JSON, NOT_AN_OBJECT, TOO_MANY = range(4)
# States of a field, and the columns of `fields`: state; span of the value, or rows and faulty rows of the column.
ABSENT, VALUE, COLUMN = range(3)
STATE, FIRST, SECOND = range(3)


@helper
def field_index(text, start, stop):
    """Return the index in FIELDS of the name `text[start:stop]`, or UNKNOWN."""
    if is_name(text, start, stop, _NAMES[0]):
        return 0
    if is_name(text, start, stop, _NAMES[1]):
        return 1
    if is_name(text, start, stop, _NAMES[2]):
        return 2
    if is_name(text, start, stop, _NAMES[3]):
        return 3
    if is_name(text, start, stop, _NAMES[4]):
        return 4
    if is_name(text, start, stop, _NAMES[5]):
        return 5
    if is_name(text, start, stop, _NAMES[6]):
        return 6
    return 7 if is_name(text, start, stop, _NAMES[7]) else UNKNOWN


@helper
def record_unknown(unknown, start, stop):
    """Record the span of an unknown member's name while there are rows left; row 0 counts all of them."""
    unknown[0, 0] += 1
    if unknown[0, 0] < unknown.shape[0]:
        unknown[unknown[0, 0], 0] = start
        unknown[unknown[0, 0], 1] = stop


@helper
def read_value(body, pos, stop, field, fields, texts, offsets, kinds, scratch, max_bytes):
    """Read the value of `field` at `pos`; returns the position after it, BAD or OVERFULL."""
    if (field == REFERENCES or field == RESPONSES) and pos < stop and body[pos] == OPEN_ARRAY:
        takes_steps = field == REFERENCES
        pos, rows, faulty = read_column(
            body, pos, stop, texts[field], offsets[field], kinds[field], takes_steps, max_bytes
        )
        fields[field, STATE] = COLUMN
        fields[field, FIRST] = rows if pos != OVERFULL else -1
        fields[field, SECOND] = faulty
        return pos
    start = pos
    pos = skip_value(body, pos, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
    if field != UNKNOWN:
        fields[field, STATE] = VALUE
        fields[field, FIRST] = start
        fields[field, SECOND] = pos
    return pos


@hot_kernel
def read_envelope(fields, unknown, texts, offsets, kinds, scratch, body, max_bytes):
    """Read `body` (uint8, read only); returns READ, NOT_JSON, NOT_AN_OBJECT, or TOO_MANY elements in a column.

    fields: int64 (8, 3), written, rows as in FIELDS: state, then the span of a value, or rows and faulty rows of a
    column. unknown: int64 (n, 2), written: the number of unknown members, then the spans of their names with quotes.
    texts: uint8 (2, m), offsets: int64 (2, rows + 1), kinds: uint8 (2, rows), written: the columns of references and
    responses, see `columns.read_column`; an overfull one has -1 rows. scratch: uint8, as long as the body. max_bytes:
    longest reference given as steps. Of two equal names the last wins.
    """
    fields[:, :] = 0
    unknown[0, 0] = 0
    stop = np.int64(body.shape[0])
    pos = skip_whitespace(body, np.int64(0), stop)
    if pos >= stop or body[pos] != OPEN_OBJECT:
        pos = skip_value(body, pos, stop, np.int64(0), BODY_DEPTH, scratch, np.int64(0))
        return NOT_AN_OBJECT if pos != BAD and skip_whitespace(body, pos, stop) == stop else NOT_JSON
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        name = skip_whitespace(body, pos, stop)
        pos, name_end, name_stop = read_name(body, name, stop, scratch, np.int64(0))
        if pos == BAD:
            return NOT_JSON
        field = field_index(scratch, np.int64(0), name_end)
        if field == UNKNOWN:
            record_unknown(unknown, name, name_stop)
        pos = read_value(body, pos, stop, field, fields, texts, offsets, kinds, scratch, max_bytes)
        if pos == BAD:
            return NOT_JSON
        if pos == OVERFULL:
            return TOO_MANY
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return NOT_JSON
    return READ if skip_whitespace(body, pos, stop) == stop else NOT_JSON

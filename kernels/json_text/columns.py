"""Reads JSON arrays of a request into text columns: arrays of strings, and of references given as steps."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from .scanner import (
    BAD,
    CLOSE_ARRAY,
    CLOSE_OBJECT,
    COLON,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    is_name,
    next_value,
    open_value,
    read_name,
    read_string,
    skip_value,
    skip_whitespace,
)

__all__ = [
    "BODY_DEPTH",
    "FIT",
    "FROM_STEPS",
    "MAX_STEPS_BYTES",
    "NOT_STEPS",
    "NO_STEP_GIVEN",
    "OVERFULL",
    "STEPS_TOO_LONG",
    "WRONG_TYPE",
    "read_column",
]

BODY_DEPTH = np.int64(1024)
"""Deepest nesting of arrays and objects in a request; the outermost is level 1."""

MAX_STEPS_BYTES = np.int64(1 << 23)
"""Bytes of the longest reference that is written from steps. A step of k bytes and its comma, at least 3 together,
become k + 7 and the digits of its number: at most five times as much with up to six digits, and this many bytes hold
fewer than a million steps.
"""

OVERFULL = -2
"""Result for an array that has more elements than its column has rows."""

# Kinds of an element: text, steps that became text, and faults.
FIT, FROM_STEPS, WRONG_TYPE, NOT_STEPS, NO_STEP_GIVEN, STEPS_TOO_LONG = range(6)

STEPS_NAME = np.frombuffer(b"steps", np.uint8)
STEP_OPENING = np.frombuffer(b"Step ", np.uint8)
SPACE, LF, CR = 0x20, 0x0A, 0x0D


@helper
def write_number(number, out, end):
    """Write `number` (at least 1) in decimal; returns the new end."""
    power = np.int64(1)
    while power * 10 <= number:
        power *= 10
    while power > 0:
        out[end] = 48 + number // power % 10
        end += 1
        power //= 10
    return end


@helper
def write_step(body, start, stop, number, out, end):
    """Write the object `body[start:stop]` as a key line, with spaces for its line breaks; returns the new end."""
    for k in range(STEP_OPENING.shape[0]):
        out[end + k] = STEP_OPENING[k]
    end = write_number(number, out, end + STEP_OPENING.shape[0])
    out[end] = COLON
    end += 1
    for k in range(start, stop):
        byte = body[k]
        out[end] = SPACE if byte == LF or byte == CR else byte
        end += 1
    out[end] = LF
    return end + 1


@helper
def read_steps(body, pos, stop, out, begin, max_bytes):
    """Write the array of steps at `pos` as key lines to `out[begin:]`: (position after it or BAD, end of out, fault).

    Steps are only separated here; the reader of key lines validates them. Steps beyond `max_bytes`, or
    `MAX_STEPS_BYTES`, are not written.
    """
    max_bytes = min(max_bytes, MAX_STEPS_BYTES)
    end = begin
    number = np.int64(0)
    fault = FIT
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    if not more:
        return pos, end, NO_STEP_GIVEN
    while more:
        start = skip_whitespace(body, pos, stop)
        pos = skip_value(body, start, stop, np.int64(4), BODY_DEPTH, out, end)
        if pos == BAD:
            return pos, end, fault
        number += 1
        if body[start] != OPEN_OBJECT:
            fault = NOT_STEPS
        elif end - begin > max_bytes:
            fault = max(fault, STEPS_TOO_LONG)
        else:
            end = write_step(body, start, pos, number, out, end)
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return pos, end, fault
    return pos, end, fault


@helper
def read_steps_object(body, pos, stop, out, begin, max_bytes):
    """Write the object `{"steps": […]}` at `pos` as key lines to `out[begin:]`: (position after it or BAD, end of out,
    fault).
    """
    end = begin
    fault = NOT_STEPS
    other_members = False
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        pos, name_stop, _ = read_name(body, pos, stop, out, end)
        if pos == BAD:
            return pos, end, fault
        is_steps = is_name(out, end, name_stop, STEPS_NAME)
        if is_steps and pos < stop and body[pos] == OPEN_ARRAY:
            pos, end, fault = read_steps(body, pos, stop, out, begin, max_bytes)
        else:
            pos = skip_value(body, pos, stop, np.int64(3), BODY_DEPTH, out, end)
            if is_steps:
                fault = NOT_STEPS
            else:
                other_members = True
        if pos == BAD:
            return pos, end, fault
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return pos, end, fault
    return pos, end, NOT_STEPS if other_members else fault


@helper
def read_element(body, pos, stop, out, end, takes_steps, max_bytes):
    """Read the element at `pos` to `out[end:]`: (position after it or BAD, end of out, kind).

    Where references are read (`takes_steps`), JSON that is neither text nor steps is copied as it is.
    """
    if pos < stop and body[pos] == QUOTE:
        pos, end = read_string(body, pos, stop, out, end)
        return pos, end, FIT
    start, begin = pos, end
    kind = WRONG_TYPE
    if takes_steps and pos < stop and body[pos] == OPEN_OBJECT:
        pos, end, fault = read_steps_object(body, pos, stop, out, end, max_bytes)
        if fault == FIT:
            return pos, end, FROM_STEPS
        kind = fault
    else:
        pos = skip_value(body, pos, stop, np.int64(2), BODY_DEPTH, out, end)
    if takes_steps and pos != BAD:
        end = begin
        for k in range(start, pos):
            out[end] = body[k]
            end += 1
    return pos, end, kind


@helper
def read_column(body, pos, stop, out, offsets, kinds, takes_steps, max_bytes):
    """Read the array at `pos` into a text column: (position after it, BAD or OVERFULL; rows; faulty rows).

    out: uint8, five times the body and 64 bytes. offsets: int64 (n + 1,), kinds: uint8 (n,), both written; n is the
    maximum of rows. The text of a faulty row is its JSON if the column `takes_steps`, else undefined.
    """
    offsets[0] = 0
    rows = np.int64(0)
    faulty = np.int64(0)
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    while more:
        if rows == kinds.shape[0]:
            return np.int64(OVERFULL), rows, faulty
        pos = skip_whitespace(body, pos, stop)
        pos, end, kind = read_element(body, pos, stop, out, offsets[rows], takes_steps, max_bytes)
        if pos == BAD:
            return pos, rows, faulty
        kinds[rows] = kind
        faulty += kind > FROM_STEPS
        rows += 1
        offsets[rows] = end
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return pos, rows, faulty
    return pos, rows, faulty

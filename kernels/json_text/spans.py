"""Locates members of a JSON object and elements of an array without building them (lazy JSON access).

The whole value is validated against RFC 8259 and RFC 3629.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel
from .columns import BODY_DEPTH
from .scanner import (
    BAD,
    CLOSE_ARRAY,
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

__all__ = ["NOT_JSON", "OTHER_KIND", "element_spans", "member_spans"]

NOT_JSON = -1
OTHER_KIND = -2
"""Result for valid JSON that is not an object, or not an array."""


@helper
def name_row(text, stop, names, name_offsets):
    """Return the row of `names` that is `text[:stop]`, or -1."""
    for row in range(name_offsets.shape[0] - 1):
        if is_name(text, np.int64(0), stop, names[name_offsets[row] : name_offsets[row + 1]]):
            return row
    return -1


@helper
def other_kind(body, pos, stop, scratch):
    """Return OTHER_KIND if one JSON value fills `body[pos:stop]`, else NOT_JSON."""
    pos = skip_value(body, pos, stop, np.int64(0), BODY_DEPTH, scratch, np.int64(0))
    return np.int64(OTHER_KIND) if pos != BAD and skip_whitespace(body, pos, stop) == stop else np.int64(NOT_JSON)


@hot_kernel
def member_spans(spans, body, start, stop, names, name_offsets, scratch):
    """Find the members of the JSON object `body[start:stop]`; returns their number, NOT_JSON or OTHER_KIND.

    spans: int64 (n, 2), written: start and stop of the value of each of the n `names`, (0, 0) if it is absent; of two
    equal names the last wins. names, name_offsets: a text column. scratch: uint8, 64 bytes longer than the body.
    """
    spans[:, :] = 0
    pos = skip_whitespace(body, start, stop)
    if pos >= stop or body[pos] != OPEN_OBJECT:
        return other_kind(body, pos, stop, scratch)
    count = np.int64(0)
    pos, more = open_value(body, pos, stop, CLOSE_OBJECT)
    while more:
        value, name_end, _ = read_name(body, pos, stop, scratch, np.int64(0))
        if value == BAD:
            return np.int64(NOT_JSON)
        row = name_row(scratch, name_end, names, name_offsets)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(NOT_JSON)
        if row >= 0:
            spans[row, 0] = value
            spans[row, 1] = pos
        count += 1
        pos, more = next_value(body, pos, stop, CLOSE_OBJECT)
        if pos == BAD:
            return np.int64(NOT_JSON)
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(NOT_JSON)


@hot_kernel
def element_spans(spans, body, start, stop, scratch):
    """Find the elements of the JSON array `body[start:stop]`; returns their number, NOT_JSON or OTHER_KIND.

    spans: int64 (n, 2), written: start and stop of each of the first n elements. scratch: as for `member_spans`.
    """
    pos = skip_whitespace(body, start, stop)
    if pos >= stop or body[pos] != OPEN_ARRAY:
        return other_kind(body, pos, stop, scratch)
    count = np.int64(0)
    pos, more = open_value(body, pos, stop, CLOSE_ARRAY)
    while more:
        value = skip_whitespace(body, pos, stop)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(NOT_JSON)
        if count < spans.shape[0]:
            spans[count, 0] = value
            spans[count, 1] = pos
        count += 1
        pos, more = next_value(body, pos, stop, CLOSE_ARRAY)
        if pos == BAD:
            return np.int64(NOT_JSON)
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(NOT_JSON)

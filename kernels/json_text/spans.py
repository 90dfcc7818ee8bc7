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
    COLON,
    COMMA,
    OPEN_ARRAY,
    OPEN_OBJECT,
    QUOTE,
    read_string,
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
        start = name_offsets[row]
        if name_offsets[row + 1] - start != stop:
            continue
        same = True
        for k in range(stop):
            if text[k] != names[start + k]:
                same = False
                break
        if same:
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
    pos = skip_whitespace(body, pos + 1, stop)
    count = np.int64(0)
    more = True
    if pos < stop and body[pos] == CLOSE_OBJECT:
        more = False
        pos += 1
    while more:
        pos = skip_whitespace(body, pos, stop)
        if pos >= stop or body[pos] != QUOTE:
            return np.int64(NOT_JSON)
        pos, name_stop = read_string(body, pos, stop, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(NOT_JSON)
        row = name_row(scratch, name_stop, names, name_offsets)
        pos = skip_whitespace(body, pos, stop)
        if pos >= stop or body[pos] != COLON:
            return np.int64(NOT_JSON)
        value = skip_whitespace(body, pos + 1, stop)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(NOT_JSON)
        if row >= 0:
            spans[row, 0] = value
            spans[row, 1] = pos
        count += 1
        pos = skip_whitespace(body, pos, stop)
        if pos >= stop or (body[pos] != COMMA and body[pos] != CLOSE_OBJECT):
            return np.int64(NOT_JSON)
        more = body[pos] == COMMA
        pos += 1
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(NOT_JSON)


@hot_kernel
def element_spans(spans, body, start, stop, scratch):
    """Find the elements of the JSON array `body[start:stop]`; returns their number, NOT_JSON or OTHER_KIND.

    spans: int64 (n, 2), written: start and stop of each of the first n elements. scratch: as for `member_spans`.
    """
    pos = skip_whitespace(body, start, stop)
    if pos >= stop or body[pos] != OPEN_ARRAY:
        return other_kind(body, pos, stop, scratch)
    pos = skip_whitespace(body, pos + 1, stop)
    count = np.int64(0)
    more = True
    if pos < stop and body[pos] == CLOSE_ARRAY:
        more = False
        pos += 1
    while more:
        value = skip_whitespace(body, pos, stop)
        pos = skip_value(body, value, stop, np.int64(1), BODY_DEPTH, scratch, np.int64(0))
        if pos == BAD:
            return np.int64(NOT_JSON)
        if count < spans.shape[0]:
            spans[count, 0] = value
            spans[count, 1] = pos
        count += 1
        pos = skip_whitespace(body, pos, stop)
        if pos >= stop or (body[pos] != COMMA and body[pos] != CLOSE_ARRAY):
            return np.int64(NOT_JSON)
        more = body[pos] == COMMA
        pos += 1
    return count if skip_whitespace(body, pos, stop) == stop else np.int64(NOT_JSON)

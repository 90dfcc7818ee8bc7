"""Parts of a long JSON body that threads read ahead: runs of strings, which the reader of columns then adopts.

Where a string is an element of an array cannot be told without reading the body from its start. So each part begins
where this is likely: behind the first comma between two quotes. The reader of the whole body (`read_members`) adopts
the strings of a part once it is itself at the first of them, and reads everything else: its result depends on no guess.

The texts are written to the column of responses, each part where no other part is and behind where the reader can be
until it adopts them: no text is longer than its JSON.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .compiler import helper
from .json_scanner import BACKSLASH, BAD, COMMA, QUOTE, copy_plain, read_string, skip_whitespace
from .threads import fetch_add

PART_BYTES = 1 << 18
"""Bytes from the start of one part to the next; of a string that begins in a part, a quarter as many are behind it."""
MIN_PARTS = 4
MIN_TEXT_BYTES = 64
"""A part has room for so many texts as have this length on average."""
SLACK = 64
"""Bytes that may be overwritten behind a text."""

# Columns of the table: the span of the strings in the body, and their number.
START, STOP, STRINGS = range(3)
# Counters: the parts that were taken, and the one that the reader comes to next.
TAKEN, NEXT = range(2)
NOWHERE = np.iinfo(np.int64).max


class Parts(NamedTuple):
    """The parts of a body."""

    table: np.ndarray  # int64 (n + 1, 3); the last row is behind the body
    ends: np.ndarray  # int64 (n, strings): where each string ends in the text of its part
    counters: np.ndarray  # int64 (2,)
    stride: int


def allocate_parts(nbytes: int) -> Parts:
    """Allocate the parts of a body of `nbytes`; a short one has none."""
    count = -(-nbytes // PART_BYTES)
    count = count if count >= MIN_PARTS else 0
    table = np.full((count + 1, 3), -1, np.int64)
    table[-1, START] = NOWHERE
    ends = np.empty((count, PART_BYTES // MIN_TEXT_BYTES), np.int64)
    return Parts(table, ends, np.zeros(2, np.int64), PART_BYTES)


@helper
def longest(stride):
    """Return the maximum bytes of a part."""
    return stride + stride // 4


@helper
def text_start(k, stride):
    """Return where the text of part `k` begins: behind the start of its strings in the body."""
    return (k + 1) * (longest(stride) + SLACK)


@helper
def find_string(body, pos, stop):
    """Return the position of the first quote in `body[pos:stop]` that follows a quote and a comma, or BAD.

    Quotes inside strings are escaped, so nearly always one string ends and another begins there.
    """
    before = np.int64(COMMA)
    while pos < stop:
        byte = body[pos]
        if byte == COMMA and before == QUOTE:
            pos = skip_whitespace(body, pos + 1, stop)
            if pos < stop and body[pos] == QUOTE:
                return pos
            before = np.int64(COMMA)
            continue
        if byte > 0x20:
            before = np.int64(byte)
        pos += 2 if byte == BACKSLASH else 1
    return np.int64(BAD)


@helper
def read_part(body, k, parts, out):
    """Read the strings of part `k` up to the one that begins the next part."""
    stride = parts.stride
    limit = min((k + 1) * stride, np.int64(body.shape[0]))
    stop = min(k * stride + longest(stride), np.int64(body.shape[0]))
    begin = text_start(k, stride)
    pos = start = find_string(body, k * stride, limit)
    end = begin
    strings = np.int64(0)
    while pos != BAD and strings < parts.ends.shape[1]:
        after, end = read_string(body, pos, stop, out, end)
        if after == BAD:
            break
        parts.ends[k, strings] = end - begin
        parts.table[k, STOP] = after
        strings += 1
        comma = skip_whitespace(body, after, stop)
        if comma >= limit or body[comma] != COMMA:
            break
        pos = skip_whitespace(body, comma + 1, stop)
        if pos >= stop or body[pos] != QUOTE:
            break
    parts.table[k, STRINGS] = strings
    if strings > 0:
        parts.table[k, START] = start


@helper
def take_parts(body, parts, out):
    """Read the parts that no other thread has taken, to the column of responses."""
    k = fetch_add(parts.counters, TAKEN, 1)
    while k < parts.ends.shape[0]:
        read_part(body, k, parts, out)
        k = fetch_add(parts.counters, TAKEN, 1)


@helper
def adopt_part(parts, k, texts, out, offsets, rows):
    """Append the strings of part `k` to a column that has `rows`; returns the position after them in the body.

    texts: the column of responses, which may be `out`, the text of the column itself.
    """
    begin, end = text_start(k, parts.stride), offsets[rows]
    strings = parts.table[k, STRINGS]
    for j in range(strings):
        offsets[rows + j + 1] = end + parts.ends[k, j]
    copy_plain(texts, begin, begin + parts.ends[k, strings - 1], out, end)
    return parts.table[k, STOP]

"""Parts of a long JSON body that threads read ahead: runs of strings, which the reader of columns then adopts.

Where a string is an element of an array cannot be told without reading the body from its start. So each part begins
where this is likely: after the first comma between two quotes. The reader of the whole body (`read_members`) adopts
the strings of a part once it is itself at the first of them, and reads everything else: its result depends on no guess.

The texts are written to the column of responses, each part where no other part is and behind where the reader can be
until it adopts them: no text is longer than its JSON.
"""

from __future__ import annotations

import numpy as np

from .compiler import helper
from .json_scanner import BACKSLASH, BAD, COMMA, QUOTE, copy_plain, read_string, skip_whitespace
from .threads import fetch_add

PART_BYTES = 1 << 18
"""Bytes from the start of one part to the next. A string that begins in a part may end a quarter as many bytes after
it."""
MIN_PARTS = 4
MIN_TEXT_BYTES = 64
"""A part has room for the number of texts that fill it if each has this length."""
SLACK = 64
"""Bytes after a text that may be overwritten."""

# Columns of the row of a part: the span of its strings in the body, and their number; then where each of them ends in
# the text of the part.
START, STOP, STRINGS, ENDS = range(4)
# Columns of the last row, which starts behind every body: the parts that were taken, the part that the reader comes to
# next, and PART_BYTES.
TAKEN, NEXT, STRIDE = range(1, 4)
NOWHERE = np.iinfo(np.int64).max


def allocate_parts(nbytes: int) -> np.ndarray:
    """Return the table of the parts of a body of `nbytes`, int64 (n + 1, ENDS + strings); a short one has no parts."""
    count = -(-nbytes // PART_BYTES)
    count = count if count >= MIN_PARTS else 0
    parts = np.empty((count + 1, ENDS + PART_BYTES // MIN_TEXT_BYTES), np.int64)
    parts[:, START] = -1
    parts[-1, : STRIDE + 1] = NOWHERE, 0, 0, PART_BYTES
    return parts


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
def read_part(body, k, stride, part, out):
    """Read the strings of part `k` up to the one that begins the next part; part: its row of the table."""
    limit = min((k + 1) * stride, np.int64(body.shape[0]))
    stop = min(k * stride + longest(stride), np.int64(body.shape[0]))
    begin = text_start(k, stride)
    pos = start = find_string(body, k * stride, limit)
    end = begin
    strings = np.int64(0)
    while pos != BAD and ENDS + strings < part.shape[0]:
        after, end = read_string(body, pos, stop, out, end)
        if after == BAD:
            break
        part[ENDS + strings] = end - begin
        part[STOP] = after
        strings += 1
        comma = skip_whitespace(body, after, stop)
        if comma >= limit or body[comma] != COMMA:
            break
        pos = skip_whitespace(body, comma + 1, stop)
        if pos >= stop or body[pos] != QUOTE:
            break
    part[STRINGS] = strings
    if strings > 0:
        part[START] = start


@helper
def take_parts(body, parts, out):
    """Read the parts that no other thread has taken, to the column of responses."""
    count = np.int64(parts.shape[0] - 1)
    state = parts[count]
    k = fetch_add(state, TAKEN, 1)
    while k < count:
        read_part(body, k, state[STRIDE], parts[k], out)
        k = fetch_add(state, TAKEN, 1)


@helper
def adopt_part(parts, k, texts, out, offsets, rows):
    """Append the strings of part `k` to a column that has `rows`; returns the position after them in the body.

    texts: the column of responses, which may be `out`, the text of the column itself.
    """
    begin, end = text_start(k, parts[parts.shape[0] - 1, STRIDE]), offsets[rows]
    strings = parts[k, STRINGS]
    for j in range(strings):
        offsets[rows + j + 1] = end + parts[k, ENDS + j]
    copy_plain(texts, begin, begin + parts[k, ENDS + strings - 1], out, end)
    return parts[k, STOP]

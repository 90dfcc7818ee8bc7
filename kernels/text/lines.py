"""Lines and whitespace."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import bits_set, break_bits, colon_bits, space_bits, space_lead_bits, trailing_zeros

COLON = 0x3A
BLOCK, NO_BITS = 64, np.uint64(0)
NO_STEP = -1
STEP = np.frombuffer(b"step", np.uint8)
NUMBER_LIMIT = 1 << 40
"""Step numbers are compared with counts of steps, so larger numbers need not be exact."""


@inlined
def is_space(byte):
    """Return whether `byte` is ASCII white space."""
    return byte == 0x20 or 0x09 <= byte <= 0x0D


@inlined
def is_blank(byte):
    """Return whether `byte` is a space or a tab."""
    return byte == 0x20 or byte == 0x09


@inlined
def line_end(text, pos, stop):
    """Return the position of the first line feed or carriage return from `pos` on, or `stop`."""
    last_block = text.shape[0] - BLOCK
    while pos < stop and pos <= last_block:
        breaks = break_bits(text, pos)
        if breaks != NO_BITS:
            return min(pos + trailing_zeros(breaks), stop)
        pos += BLOCK
    while pos < stop and text[pos] != 0x0A and text[pos] != 0x0D:
        pos += 1
    return min(pos, stop)


@helper
def next_line(text, pos, stop):
    """Find the next line that is not blank, trimmed: (start, stop, position after it); start is -1 after the last."""
    while pos < stop:
        while pos < stop and is_space(text[pos]):
            pos += 1
        start = pos
        pos = line_end(text, pos, stop)
        end = pos
        while end > start and is_space(text[end - 1]):
            end -= 1
        if end > start:
            return start, end, pos
    return -1, -1, stop


@inlined
def step_header(text, start, stop):
    """Read a line `step N : rest`: (number, capped at NUMBER_LIMIT; start of the rest), or (NO_STEP, start)."""
    if stop - start < 7:
        return np.int64(NO_STEP), start
    for k in range(4):
        if text[start + k] | 0x20 != STEP[k]:
            return np.int64(NO_STEP), start
    pos = start + 4
    while pos < stop and is_blank(text[pos]):
        pos += 1
    digits = pos
    number = np.int64(0)
    while pos < stop and 48 <= text[pos] <= 57:
        number = min(number * 10 + (np.int64(text[pos]) - 48), NUMBER_LIMIT)  # type: ignore[arg-type]
        pos += 1
    if digits == start + 4 or pos == digits:
        return np.int64(NO_STEP), start
    while pos < stop and is_blank(text[pos]):
        pos += 1
    if pos >= stop or text[pos] != COLON:
        return np.int64(NO_STEP), start
    return number, pos + 1


@helper
def has_more_lines(text, pos, stop, limit):
    """Return whether there are more than `limit` non-blank lines; lines take two bytes, so short texts are not read."""
    if (stop - pos + 1) // 2 <= limit:
        return False
    count = 0
    while count <= limit:
        start, _, pos = next_line(text, pos, stop)
        if start < 0:
            return False
        count += 1
    return True


@helper
def has_more_colons(text, pos, stop, limit):
    """Return whether there may be more than `limit` colons, 64 bytes at a time; the last bytes all count as colons."""
    count = np.int64(0)
    while count <= limit and stop - pos >= BLOCK:
        count += bits_set(colon_bits(text, pos))
        pos += BLOCK
    return count + stop - pos > limit


@helper
def has_more_steps(text, pos, stop, limit):
    """Return whether more than `limit` lines begin a step; each such line takes eight bytes and has a colon."""
    if (stop - pos + 1) // 8 <= limit or not has_more_colons(text, pos, stop, limit):
        return False
    count = 0
    while count <= limit:
        start, end, pos = next_line(text, pos, stop)
        if start < 0:
            return False
        count += step_header(text, start, end)[0] != NO_STEP
    return True


NONE, ONE, TOP = np.uint64(0), np.uint64(1), np.uint64(63)


@helper
def unicode_space_width(text, pos, stop):
    """Return the bytes of the white space at `pos`, 0 if it is another character; `text[pos]` is not ASCII."""
    lead = text[pos]
    if lead == 0xC2:
        return 2 if text[pos + 1] == 0x85 or text[pos + 1] == 0xA0 else 0
    if stop - pos < 3:
        return 0
    middle, last = text[pos + 1], text[pos + 2]
    if lead == 0xE1:
        return 3 if middle == 0x9A and last == 0x80 else 0
    if lead == 0xE2:
        if middle == 0x80:
            return 3 if last <= 0x8A or last == 0xA8 or last == 0xA9 or last == 0xAF else 0
        return 3 if middle == 0x81 and last == 0x9F else 0
    return 3 if lead == 0xE3 and middle == 0x80 and last == 0x80 else 0


@helper
def count_tail(text, pos, stop, outside):
    """Count the tokens that begin in `text[pos:stop]` byte by byte, because no block fits into the array any more."""
    tokens = np.int64(0)
    while pos < stop:
        byte = text[pos]
        size = 1
        blank = byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F
        if byte >= 0x80:
            size = unicode_space_width(text, pos, stop)
            blank = size > 0
            size = max(1, size)
        tokens += outside and not blank
        outside = blank
        pos += size
    return tokens


@helper
def count_tokens(text, start, stop):
    """Count the white-space separated tokens of `text[start:stop]` (UTF-8), 64 bytes at a time."""
    tokens = np.int64(0)
    outside = ONE  # whether the byte before the block is white space
    wide = NONE  # bytes of the block that belong to white space which began before it
    pos = start
    last_block = text.shape[0] - BLOCK
    while pos < stop:
        if pos > last_block:
            pos += trailing_zeros(~wide)
            return tokens + count_tail(text, pos, stop, outside != NONE)
        blank = space_bits(text, pos) | wide
        leads = space_lead_bits(text, pos)
        wide = NONE
        while leads != NONE:
            k = trailing_zeros(leads)
            leads &= leads - ONE
            size = unicode_space_width(text, pos + k, stop) if pos + k < stop else 0
            if size:
                blank |= ((ONE << np.uint64(size)) - ONE) << np.uint64(k)
                if k + size > BLOCK:
                    wide = (ONE << np.uint64(k + size - BLOCK)) - ONE
        begins = ~blank & (blank << ONE | outside)
        if stop - pos < BLOCK:
            begins &= (ONE << np.uint64(stop - pos)) - ONE
        tokens += bits_set(begins)
        outside = blank >> TOP
        pos += BLOCK
    return tokens

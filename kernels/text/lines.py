"""Lines of a section and the `Step N:` they may begin with (SCORE.md section 1)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.load_store import trailing_zeros
from ..memory.simd import bits_set, break_bits, colon_bits

__all__ = ["NO_STEP", "has_more_lines", "has_more_steps", "is_space", "next_line", "step_header"]

COLON = 0x3A
BLOCK, NO_BITS = 64, np.uint64(0)
NO_STEP = -1
STEP = np.frombuffer(b"step", np.uint8)
NUMBER_LIMIT = 1 << 40
"""Step numbers are compared with counts of steps, so larger ones need no exact value."""


@inlined
def is_space(byte):
    """ASCII white space."""
    return byte == 0x20 or 0x09 <= byte <= 0x0D


@inlined
def is_blank(byte):
    """Space or tab."""
    return byte == 0x20 or byte == 0x09


@inlined
def line_end(text, at, stop):
    """Position of the first line feed or carriage return from `at` on, or `stop`."""
    whole_blocks = text.shape[0] - BLOCK
    while at < stop and at <= whole_blocks:
        breaks = break_bits(text, at)
        if breaks != NO_BITS:
            return min(at + trailing_zeros(breaks), stop)
        at += BLOCK
    while at < stop and text[at] != 0x0A and text[at] != 0x0D:
        at += 1
    return min(at, stop)


@helper
def next_line(text, at, stop):
    """The next line that is not only white space, trimmed: (start, stop, where to go on); start is -1 after the
    last.
    """
    while at < stop:
        while at < stop and is_space(text[at]):
            at += 1
        start = at
        at = line_end(text, at, stop)
        end = at
        while end > start and is_space(text[end - 1]):
            end -= 1
        if end > start:
            return start, end, at
    return -1, -1, stop


@inlined
def step_header(text, start, stop):
    """(number, where the rest begins) of a line `step N : rest`, or (NO_STEP, start). Numbers are cut at
    NUMBER_LIMIT.
    """
    if stop - start < 7:
        return np.int64(NO_STEP), start
    for k in range(4):
        if text[start + k] | 0x20 != STEP[k]:
            return np.int64(NO_STEP), start
    at = start + 4
    while at < stop and is_blank(text[at]):
        at += 1
    digits = at
    number = np.int64(0)
    while at < stop and 48 <= text[at] <= 57:
        number = min(number * 10 + (np.int64(text[at]) - 48), NUMBER_LIMIT)
        at += 1
    if digits == start + 4 or at == digits:
        return np.int64(NO_STEP), start
    while at < stop and is_blank(text[at]):
        at += 1
    if at >= stop or text[at] != COLON:
        return np.int64(NO_STEP), start
    return number, at + 1


@helper
def has_more_lines(text, at, stop, limit):
    """Whether there are more than `limit` non-blank lines; a line takes two bytes, so short texts need no count."""
    if (stop - at + 1) // 2 <= limit:
        return False
    count = 0
    while count <= limit:
        start, _, at = next_line(text, at, stop)
        if start < 0:
            return False
        count += 1
    return True


@helper
def has_more_colons(text, at, stop, limit):
    """Whether there may be more than `limit` colons, 64 bytes at a time: the last bytes count as such."""
    count = np.int64(0)
    while count <= limit and stop - at >= BLOCK:
        count += bits_set(colon_bits(text, at))
        at += BLOCK
    return count + stop - at > limit


@helper
def has_more_steps(text, at, stop, limit):
    """Whether more than `limit` lines open a step, each of which takes eight bytes, and one of them is a colon."""
    if (stop - at + 1) // 8 <= limit or not has_more_colons(text, at, stop, limit):
        return False
    count = 0
    while count <= limit:
        start, end, at = next_line(text, at, stop)
        if start < 0:
            return False
        count += step_header(text, start, end)[0] != NO_STEP
    return True

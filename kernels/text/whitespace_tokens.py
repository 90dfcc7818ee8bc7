"""Counts white-space separated tokens as Python's `str.split()` does (docs/rules.md, Step scale)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..memory.load_store import trailing_zeros
from ..memory.simd import bits_set, space_bits, space_lead_bits

__all__ = ["count_tokens"]

BLOCK = 64
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

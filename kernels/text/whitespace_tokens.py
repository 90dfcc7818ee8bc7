"""White-space separated pieces of a text, as Python's `str.split()` cuts them (SCORE.md section 4)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper
from ..memory.load_store import trailing_zeros
from ..memory.simd import bits_set, space_bits, wide_lead_bits

__all__ = ["count_pieces"]

BLOCK = 64
NONE, ONE, TOP = np.uint64(0), np.uint64(1), np.uint64(63)


@helper
def wide_space(text, at, stop):
    """Bytes of the Unicode white space beyond ASCII at `at`, 0 if there is none; `text[at]` is not ASCII."""
    lead = text[at]
    if lead == 0xC2:
        return 2 if text[at + 1] == 0x85 or text[at + 1] == 0xA0 else 0
    if stop - at < 3:
        return 0
    middle, last = text[at + 1], text[at + 2]
    if lead == 0xE1:
        return 3 if middle == 0x9A and last == 0x80 else 0
    if lead == 0xE2:
        if middle == 0x80:
            return 3 if last <= 0x8A or last == 0xA8 or last == 0xA9 or last == 0xAF else 0
        return 3 if middle == 0x81 and last == 0x9F else 0
    return 3 if lead == 0xE3 and middle == 0x80 and last == 0x80 else 0


@helper
def count_at_end(text, at, stop, outside):
    """Pieces that begin in `text[at:stop]`, byte by byte: where the array ends before a block does."""
    pieces = np.int64(0)
    while at < stop:
        byte = text[at]
        size = 1
        blank = byte == 0x20 or 0x09 <= byte <= 0x0D or 0x1C <= byte <= 0x1F
        if byte >= 0x80:
            size = wide_space(text, at, stop)
            blank = size > 0
            size = max(1, size)
        pieces += outside and not blank
        outside = blank
        at += size
    return pieces


@helper
def count_pieces(text, start, stop):
    """Number of white-space separated pieces of `text[start:stop]` (UTF-8), 64 bytes at a time."""
    pieces = np.int64(0)
    outside = ONE  # whether the byte before the block separates
    wide = NONE  # bytes of the block that belong to white space which began before it
    at = start
    whole_blocks = text.shape[0] - BLOCK
    while at < stop:
        if at > whole_blocks:
            at += trailing_zeros(~wide)
            return pieces + count_at_end(text, at, stop, outside != NONE)
        blank = space_bits(text, at) | wide
        leads = wide_lead_bits(text, at)
        wide = NONE
        while leads != NONE:
            k = trailing_zeros(leads)
            leads &= leads - ONE
            size = wide_space(text, at + k, stop) if at + k < stop else 0
            if size:
                blank |= ((ONE << np.uint64(size)) - ONE) << np.uint64(k)
                if k + size > BLOCK:
                    wide = (ONE << np.uint64(k + size - BLOCK)) - ONE
        begins = ~blank & (blank << ONE | outside)
        if stop - at < BLOCK:
            begins &= (ONE << np.uint64(stop - at)) - ONE
        pieces += bits_set(begins)
        outside = blank >> TOP
        at += BLOCK
    return pieces

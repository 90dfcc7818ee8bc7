"""UTF-8 validation (RFC 3629), 64 bytes at a time: the other kernels trust the texts that they read.

The first bytes of characters determine which bytes must be continuation bytes; no others may be. Four first bytes
restrict the second byte: their characters are checked one by one.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel
from ..memory.load_store import trailing_zeros
from ..memory.simd import continuation_bits, lead2_bits, lead3_bits, lead4_bits, non_ascii_bits, restricted_lead_bits
from .utf8 import is_continuation, valid_width

__all__ = ["is_valid_column"]

BLOCK = 64
NONE, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
TOP, TOP_TWO, TOP_THREE = np.uint64(63), np.uint64(62), np.uint64(61)


@helper
def restricted_leads_valid(text, base, stop, leads):
    """Return whether the characters at the bits `leads` of the block at `base` are valid."""
    while leads != NONE:
        if valid_width(text, base + trailing_zeros(leads), stop) == 0:
            return False
        leads &= leads - ONE
    return True


@helper
def is_utf8(text, pos, stop):
    """Return whether `text[pos:stop]` is UTF-8."""
    expected = NONE  # bytes of the block that must continue a character of the block before
    while stop - pos >= BLOCK:
        non_ascii = non_ascii_bits(text, pos)
        if non_ascii | expected != NONE:
            four = lead4_bits(text, pos)
            three = lead3_bits(text, pos) | four
            two = lead2_bits(text, pos) | three
            found = continuation_bits(text, pos)
            if found | two != non_ascii or found != (expected | two << ONE | three << TWO | four << THREE):
                return False
            if not restricted_leads_valid(text, pos, stop, restricted_lead_bits(text, pos)):
                return False
            expected = two >> TOP | three >> TOP_TWO | four >> TOP_THREE
        pos += BLOCK
    if expected != NONE:
        pos -= 1
        while is_continuation(text[pos]):
            pos -= 1
    while pos < stop:
        size = 1 if text[pos] < 0x80 else valid_width(text, pos, stop)
        if size == 0:
            return False
        pos += size
    return True


@hot_kernel
def is_valid_column(data, offsets):
    """Return whether `data` and `offsets` are a text column: ascending rows inside `data`, each of them UTF-8."""
    rows = offsets.shape[0] - 1
    if offsets[0] < 0 or offsets[rows] > data.shape[0]:
        return False
    for row in range(rows):
        if offsets[row] > offsets[row + 1]:
            return False
    if not is_utf8(data, offsets[0], offsets[rows]):
        return False
    for row in range(rows):
        if offsets[row] < offsets[row + 1] and is_continuation(data[offsets[row]]):
            return False
    return True

"""Whether bytes are UTF-8 (RFC 3629), 64 at a time: kernels trust the texts that they read.

Which bytes begin characters of two, three and four bytes says which bytes have to go on with one, and no others may.
After four of the first bytes not every second one is allowed: those characters are looked at one by one.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel
from ..memory.load_store import trailing_zeros
from ..memory.simd import beyond_ascii_bits, continuation_bits, lead2_bits, lead3_bits, lead4_bits, narrow_lead_bits
from .utf8 import is_continuation, valid_width

__all__ = ["are_texts"]

BLOCK = 64
NONE, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
TOP, TOP_TWO, TOP_THREE = np.uint64(63), np.uint64(62), np.uint64(61)


@helper
def narrow_leads_fit(text, base, stop, leads):
    """Whether characters stand at the bits `leads` of the block at `base`."""
    while leads != NONE:
        if valid_width(text, base + trailing_zeros(leads), stop) == 0:
            return False
        leads &= leads - ONE
    return True


@helper
def is_utf8(text, at, stop):
    """Whether `text[at:stop]` is UTF-8."""
    due = NONE  # bytes of the block that have to go on with a character which began before it
    while stop - at >= BLOCK:
        beyond = beyond_ascii_bits(text, at)
        if beyond | due != NONE:
            four = lead4_bits(text, at)
            three = lead3_bits(text, at) | four
            two = lead2_bits(text, at) | three
            found = continuation_bits(text, at)
            if found | two != beyond or found != (due | two << ONE | three << TWO | four << THREE):
                return False
            if not narrow_leads_fit(text, at, stop, narrow_lead_bits(text, at)):
                return False
            due = two >> TOP | three >> TOP_TWO | four >> TOP_THREE
        at += BLOCK
    if due != NONE:
        at -= 1
        while is_continuation(text[at]):
            at -= 1
    while at < stop:
        size = 1 if text[at] < 0x80 else valid_width(text, at, stop)
        if size == 0:
            return False
        at += size
    return True


@hot_kernel
def are_texts(data, offsets):
    """Whether what claims to be a text column is one: rows inside `data`, one behind the other, each of them UTF-8."""
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

"""Encodes and decodes code points in valid UTF-8, and validates it: the other kernels trust the texts that they read.

Validation (RFC 3629) reads 64 bytes at a time. The first bytes of characters determine which bytes must be continuation
bytes; no others may be. Four first bytes restrict the second byte: their characters are checked one by one.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel
from ..memory.load_store import trailing_zeros
from ..memory.simd import continuation_bits, lead2_bits, lead3_bits, lead4_bits, non_ascii_bits, restricted_lead_bits

__all__ = ["decode", "encode", "is_continuation", "is_valid_column", "valid_width", "width"]

BLOCK = 64
NONE, ONE, TWO, THREE = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3)
TOP, TOP_TWO, TOP_THREE = np.uint64(63), np.uint64(62), np.uint64(61)


@helper
def width(lead):
    """Return the bytes of the character that begins with byte `lead`."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@helper
def decode(text, pos):
    lead = np.int64(text[pos])
    if lead < 0x80:
        return lead
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (np.int64(text[pos + 1]) & 0x3F)
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | (np.int64(text[pos + 1]) & 0x3F) << 6 | (np.int64(text[pos + 2]) & 0x3F)
    high = (lead & 0x07) << 18 | (np.int64(text[pos + 1]) & 0x3F) << 12
    return high | (np.int64(text[pos + 2]) & 0x3F) << 6 | (np.int64(text[pos + 3]) & 0x3F)


@helper
def encode(code, out, pos):
    """Write `code` at byte `pos` of `out`; returns the position after it."""
    if code < 0x80:
        out[pos] = code
        return pos + 1
    if code < 0x800:
        out[pos] = 0xC0 | code >> 6
        out[pos + 1] = 0x80 | code & 0x3F
        return pos + 2
    if code < 0x10000:
        out[pos] = 0xE0 | code >> 12
        out[pos + 1] = 0x80 | code >> 6 & 0x3F
        out[pos + 2] = 0x80 | code & 0x3F
        return pos + 3
    out[pos] = 0xF0 | code >> 18
    out[pos + 1] = 0x80 | code >> 12 & 0x3F
    out[pos + 2] = 0x80 | code >> 6 & 0x3F
    out[pos + 3] = 0x80 | code & 0x3F
    return pos + 4


@helper
def is_continuation(byte):
    return 0x80 <= byte <= 0xBF


@helper
def valid_width(text, pos, stop):
    """Return the bytes of the non-ASCII character at `pos`, 0 if it is not valid UTF-8 (RFC 3629)."""
    lead = text[pos]
    left = stop - pos
    if lead < 0xC2 or lead > 0xF4 or left < 2:
        return 0
    second = text[pos + 1]
    if lead < 0xE0:
        return 2 if is_continuation(second) else 0
    low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if left < 3 or not low <= second <= high or not is_continuation(text[pos + 2]):
        return 0
    if lead < 0xF0:
        return 3
    return 4 if left >= 4 and is_continuation(text[pos + 3]) else 0


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
    expected = NONE  # bytes of the block that must continue a character of the block before
    while stop - pos >= BLOCK:
        non_ascii = non_ascii_bits(text, pos)
        if non_ascii | expected != NONE:
            four = lead4_bits(text, pos)
            three = lead3_bits(text, pos) | four
            two = lead2_bits(text, pos) | three
            continuations = continuation_bits(text, pos)
            if continuations | two != non_ascii or continuations != (
                expected | two << ONE | three << TWO | four << THREE
            ):
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

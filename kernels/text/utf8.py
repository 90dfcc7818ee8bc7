"""Encodes and decodes code points in valid UTF-8."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper

__all__ = ["decode", "encode", "is_continuation", "valid_width", "width"]


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
    """Return the code point of the character at byte `pos`."""
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
    """Return whether `byte` is a continuation byte."""
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

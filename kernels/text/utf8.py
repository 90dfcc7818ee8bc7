"""Code points in UTF-8 that is known to be valid."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper

__all__ = ["decode", "encode", "is_continuation", "valid_width", "width"]


@helper
def width(lead):
    """Bytes of the character that begins with byte `lead`."""
    if lead < 0x80:
        return 1
    if lead < 0xE0:
        return 2
    return 3 if lead < 0xF0 else 4


@helper
def decode(text, at):
    """Code point of the character at byte `at`."""
    lead = np.int64(text[at])
    if lead < 0x80:
        return lead
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | (np.int64(text[at + 1]) & 0x3F)
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | (np.int64(text[at + 1]) & 0x3F) << 6 | (np.int64(text[at + 2]) & 0x3F)
    high = (lead & 0x07) << 18 | (np.int64(text[at + 1]) & 0x3F) << 12
    return high | (np.int64(text[at + 2]) & 0x3F) << 6 | (np.int64(text[at + 3]) & 0x3F)


@helper
def encode(code, out, at):
    """Write `code` at byte `at` of `out`; returns the position after it."""
    if code < 0x80:
        out[at] = code
        return at + 1
    if code < 0x800:
        out[at] = 0xC0 | code >> 6
        out[at + 1] = 0x80 | code & 0x3F
        return at + 2
    if code < 0x10000:
        out[at] = 0xE0 | code >> 12
        out[at + 1] = 0x80 | code >> 6 & 0x3F
        out[at + 2] = 0x80 | code & 0x3F
        return at + 3
    out[at] = 0xF0 | code >> 18
    out[at + 1] = 0x80 | code >> 12 & 0x3F
    out[at + 2] = 0x80 | code >> 6 & 0x3F
    out[at + 3] = 0x80 | code & 0x3F
    return at + 4


@helper
def is_continuation(byte):
    """Whether `byte` goes on with a character."""
    return 0x80 <= byte <= 0xBF


@helper
def valid_width(text, at, stop):
    """Bytes of the character beyond ASCII at `at` of text that may not be UTF-8; 0 where there is none (RFC 3629)."""
    lead = text[at]
    left = stop - at
    if lead < 0xC2 or lead > 0xF4 or left < 2:
        return 0
    second = text[at + 1]
    if lead < 0xE0:
        return 2 if is_continuation(second) else 0
    low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    if left < 3 or not low <= second <= high or not is_continuation(text[at + 2]):
        return 0
    if lead < 0xF0:
        return 3
    return 4 if left >= 4 and is_continuation(text[at + 3]) else 0

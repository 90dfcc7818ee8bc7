"""JSON (RFC 8259) read in place, one scan, no recursion: strings, and any value skipped over while it is checked.

Nothing is taken on trust, UTF-8 included. Functions return the position after what they read, or -1 where it is not
JSON.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.load_store import trailing_zeros
from ..memory.simd import copy32, special_bits
from ..text.utf8 import encode, valid_width

__all__ = ["BAD", "DEPTH_LIMIT", "is_name", "read_string", "skip_blanks", "skip_scalar", "skip_value"]

BAD = -1
DEPTH_LIMIT = np.int64(100)
"""Deepest nesting of arrays and objects in a step; the outermost is level 1."""

QUOTE, BACKSLASH, COLON, COMMA = 0x22, 0x5C, 0x3A, 0x2C
OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D
MINUS, PLUS, DOT, ZERO = 0x2D, 0x2B, 0x2E, 0x30
BLOCK = 64
REACH = BLOCK + 48
"""Bytes from the beginning of a block that may be loaded: what is copied may begin behind it, after an escape."""
NONE, ONE, ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
TRUE = np.frombuffer(b"true", np.uint8)
FALSE = np.frombuffer(b"false", np.uint8)
NULL = np.frombuffer(b"null", np.uint8)

# What the letter of a two-character escape stands for; 0 where it is none.
ESCAPES = np.zeros(256, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    ESCAPES[_letter] = _meaning
ESCAPES.setflags(write=False)
NO_ESCAPE = np.uint8(0)


@helper
def skip_blanks(text, at, stop):
    """JSON's white space."""
    while at < stop and (text[at] == 0x20 or text[at] == 0x09 or text[at] == 0x0A or text[at] == 0x0D):
        at += 1
    return at


@helper
def hex_unit(text, at, stop):
    """The UTF-16 code unit of four hex digits at `at`, or BAD."""
    if stop - at < 4:
        return np.int64(BAD)
    unit = np.int64(0)
    for k in range(4):
        byte = np.int64(text[at + k])
        if 48 <= byte <= 57:
            unit = unit << 4 | (byte - 48)
        elif 97 <= byte | 0x20 <= 102:
            unit = unit << 4 | ((byte | 0x20) - 87)
        else:
            return np.int64(BAD)
    return unit


@helper
def read_code_units(text, at, stop, out, end):
    """Decode the escape of a code unit, or a pair of them, behind the backslash at `at - 1`: (position, end of out), or
    (BAD, end).
    """
    if at >= stop or text[at] != 0x75:
        return np.int64(BAD), end
    unit = hex_unit(text, at + 1, stop)
    at += 5
    if unit == BAD or 0xDC00 <= unit <= 0xDFFF:
        return np.int64(BAD), end
    if 0xD800 <= unit <= 0xDBFF:
        if stop - at < 6 or text[at] != BACKSLASH or text[at + 1] != 0x75:
            return np.int64(BAD), end
        low = hex_unit(text, at + 2, stop)
        if not 0xDC00 <= low <= 0xDFFF:
            return np.int64(BAD), end
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    return at, encode(unit, out, end)


@inlined
def read_escape(text, at, stop, out, end):
    """Decode the escape that begins with the backslash at `at`: (position, end of out), or (BAD, end)."""
    meaning = ESCAPES[text[at + 1]] if at + 1 < stop else NO_ESCAPE
    if meaning == NO_ESCAPE:
        return read_code_units(text, at + 1, stop, out, end)
    out[end] = meaning
    return at + 2, end + 1


@inlined
def copy_plain(text, start, stop, out, end):
    """Copy `text[start:stop]` to `out[end:]`, 32 bytes at a time; returns its end."""
    copy32(text, start, out, end)
    for k in range(32, stop - start, 32):
        copy32(text, start + k, out, end + k)
    return end + stop - start


@helper
def read_string(text, at, stop, out, end):
    """Decode the string whose opening quote is at `at` to `out[end:]`: (position after it, end of out), or (BAD, end).

    `out` has room for the string and 32 bytes more. What is special is found in bitmaps of 64 bytes; what is between
    is copied in one piece.
    """
    at += 1
    whole_blocks = text.shape[0] - REACH
    while at < stop and at <= whole_blocks:
        special = special_bits(text, at)
        if stop - at < BLOCK:
            special &= (ONE << np.uint64(stop - at)) - ONE
        plain = at
        behind = min(at + BLOCK, stop)
        while special != NONE:
            here = at + trailing_zeros(special)
            byte = text[here]
            if byte >= 0x80:
                size = valid_width(text, here, stop)
                if size == 0:
                    return np.int64(BAD), end
                after = here + size
            else:
                end = copy_plain(text, plain, here, out, end)
                if byte == QUOTE:
                    return here + 1, end
                if byte != BACKSLASH:
                    return np.int64(BAD), end
                after, end = read_escape(text, here, stop, out, end)
                if after == BAD:
                    return np.int64(BAD), end
                plain = after
            if after >= behind:
                behind = after
                break
            special &= ALL_BITS << np.uint64(after - at)
        end = copy_plain(text, plain, behind, out, end)
        at = behind
    return read_last(text, at, stop, out, end)


@helper
def read_last(text, at, stop, out, end):
    """`read_string` from inside a string on, byte by byte: where the array ends before a block does."""
    while at < stop:
        byte = text[at]
        if byte == QUOTE:
            return at + 1, end
        if byte == BACKSLASH:
            at, end = read_escape(text, at, stop, out, end)
            if at == BAD:
                return np.int64(BAD), end
            continue
        if byte < 0x20:
            return np.int64(BAD), end
        size = 1 if byte < 0x80 else valid_width(text, at, stop)
        if size == 0:
            return np.int64(BAD), end
        for k in range(size):
            out[end + k] = text[at + k]
        end += size
        at += size
    return np.int64(BAD), end


@helper
def skip_literal(text, at, stop, literal):
    """Position after `literal`, or BAD."""
    if stop - at < literal.shape[0]:
        return np.int64(BAD)
    for k in range(literal.shape[0]):
        if text[at + k] != literal[k]:
            return np.int64(BAD)
    return at + literal.shape[0]


@helper
def skip_digits(text, at, stop):
    """Position after one digit or more, or BAD."""
    start = at
    while at < stop and 48 <= text[at] <= 57:
        at += 1
    return at if at > start else np.int64(BAD)


@helper
def skip_number(text, at, stop):
    """Position after the number at `at`, or BAD."""
    if at < stop and text[at] == MINUS:
        at += 1
    if at < stop and text[at] == ZERO:
        at += 1
    else:
        at = skip_digits(text, at, stop)
    if at != BAD and at < stop and text[at] == DOT:
        at = skip_digits(text, at + 1, stop)
    if at != BAD and at < stop and text[at] | 0x20 == 0x65:
        at += 1
        if at < stop and (text[at] == PLUS or text[at] == MINUS):
            at += 1
        at = skip_digits(text, at, stop)
    return at


@helper
def skip_scalar(text, at, stop, out, end):
    """Position after the string, number or literal at `at`, or BAD; strings are decoded over `out[end:]`."""
    if at >= stop:
        return np.int64(BAD)
    byte = text[at]
    if byte == QUOTE:
        return read_string(text, at, stop, out, end)[0]
    if byte == 0x74:
        return skip_literal(text, at, stop, TRUE)
    if byte == 0x66:
        return skip_literal(text, at, stop, FALSE)
    if byte == 0x6E:
        return skip_literal(text, at, stop, NULL)
    return skip_number(text, at, stop)


@helper
def is_name(text, start, stop, name):
    """Whether `text[start:stop]` is `name`."""
    if stop - start != name.shape[0]:
        return False
    for k in range(name.shape[0]):
        if text[start + k] != name[k]:
            return False
    return True


@helper
def skip_name(text, at, stop, out, end):
    """Position after a member's name and colon, from the white space before it on, or BAD."""
    at = skip_blanks(text, at, stop)
    if at >= stop or text[at] != QUOTE:
        return np.int64(BAD)
    at, _ = read_string(text, at, stop, out, end)
    if at == BAD:
        return at
    at = skip_blanks(text, at, stop)
    return at + 1 if at < stop and text[at] == COLON else np.int64(BAD)


@helper
def skip_value(text, at, stop, depth, limit, out, end):
    """Position after the value at `at`, which stands inside `depth` of at most `limit` arrays and objects, or BAD.

    `out[end:]` is scratch: the brackets that close the open levels, then the string at hand. That is never more than
    the text itself.
    """
    top = end
    while True:
        at = skip_blanks(text, at, stop)
        if at < stop and (text[at] == OPEN_ARRAY or text[at] == OPEN_OBJECT):
            if depth + top - end == limit:
                return np.int64(BAD)
            closing = text[at] + 2
            out[top] = closing
            top += 1
            at = skip_blanks(text, at + 1, stop)
            if at < stop and text[at] == closing:
                at += 1
                top -= 1
            else:
                if closing == CLOSE_OBJECT:
                    at = skip_name(text, at, stop, out, top)
                    if at == BAD:
                        return at
                continue
        else:
            at = skip_scalar(text, at, stop, out, top)
            if at == BAD:
                return at
        while top > end:
            at = skip_blanks(text, at, stop)
            if at >= stop:
                return np.int64(BAD)
            if text[at] == COMMA:
                at += 1
                break
            if text[at] != out[top - 1]:
                return np.int64(BAD)
            at += 1
            top -= 1
        if top == end:
            return at
        if out[top - 1] == CLOSE_OBJECT:
            at = skip_name(text, at, stop, out, top)
            if at == BAD:
                return at

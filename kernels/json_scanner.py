"""Scanner of JSON (RFC 8259): decodes strings, and validates and skips other values, without recursion.

UTF-8 is validated, too. Functions return the position after the value, or BAD if it is not JSON.
"""

from __future__ import annotations

import numpy as np

from .compiler import helper, inlined
from .memory import copy32, special_bits, trailing_zeros
from .text.strings import encode, valid_width

BAD = -1
DEPTH_LIMIT = np.int64(100)
"""Deepest nesting of arrays and objects in a step; the outermost is level 1."""

QUOTE, BACKSLASH, COLON, COMMA = 0x22, 0x5C, 0x3A, 0x2C
OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D
MINUS, PLUS, DOT, ZERO = 0x2D, 0x2B, 0x2E, 0x30
BLOCK = 64
REACH = BLOCK + 48
"""Bytes from the start of a block that may be loaded: after an escape, a copy may begin beyond the block."""
NONE, ONE, ALL_BITS = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
TRUE = np.frombuffer(b"true", np.uint8)
FALSE = np.frombuffer(b"false", np.uint8)
NULL = np.frombuffer(b"null", np.uint8)

# Meaning of the letter of a two-character escape; 0 if it is not an escape.
ESCAPES = np.zeros(256, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    ESCAPES[_letter] = _meaning
ESCAPES.setflags(write=False)
NO_ESCAPE = np.uint8(0)


@helper
def skip_whitespace(text, pos, stop):
    while pos < stop and (text[pos] == 0x20 or text[pos] == 0x09 or text[pos] == 0x0A or text[pos] == 0x0D):
        pos += 1
    return pos


@helper
def begins_object(text, start, stop):
    """Return whether the first byte of `text[start:stop]` but white space is an opening brace."""
    pos = skip_whitespace(text, start, stop)
    return pos < stop and text[pos] == OPEN_OBJECT


@helper
def hex_unit(text, pos, stop):
    """Return the UTF-16 code unit of the four hex digits at `pos`, or BAD."""
    if stop - pos < 4:
        return np.int64(BAD)
    unit = np.int64(0)
    for k in range(4):
        byte = np.int64(text[pos + k])
        if 48 <= byte <= 57:
            unit = unit << 4 | (byte - 48)
        elif 97 <= byte | 0x20 <= 102:
            unit = unit << 4 | ((byte | 0x20) - 87)
        else:
            return np.int64(BAD)
    return unit


@helper
def read_code_units(text, pos, stop, out, end):
    """Decode the escape of a code unit, or of a surrogate pair, after the backslash at `pos - 1`: (position after it,
    end of out), or (BAD, end).
    """
    if pos >= stop or text[pos] != 0x75:
        return np.int64(BAD), end
    unit = hex_unit(text, pos + 1, stop)
    pos += 5
    if unit == BAD or 0xDC00 <= unit <= 0xDFFF:
        return np.int64(BAD), end
    if 0xD800 <= unit <= 0xDBFF:
        if stop - pos < 6 or text[pos] != BACKSLASH or text[pos + 1] != 0x75:
            return np.int64(BAD), end
        low = hex_unit(text, pos + 2, stop)
        if not 0xDC00 <= low <= 0xDFFF:
            return np.int64(BAD), end
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)
        pos += 6
    return pos, encode(unit, out, end)


@inlined
def read_escape(text, pos, stop, out, end):
    """Decode the escape that begins with the backslash at `pos`: (position, end of out), or (BAD, end)."""
    meaning = ESCAPES[text[pos + 1]] if pos + 1 < stop else NO_ESCAPE
    if meaning == NO_ESCAPE:
        return read_code_units(text, pos + 1, stop, out, end)
    out[end] = meaning
    return pos + 2, end + 1


@inlined
def copy_plain(text, start, stop, out, end):
    """Copy `text[start:stop]` to `out[end:]`, 32 bytes at a time; returns the new end."""
    copy32(text, start, out, end)
    for k in range(32, stop - start, 32):
        copy32(text, start + k, out, end + k)
    return end + stop - start


@helper
def read_string(text, pos, stop, out, end):
    """Decode the string whose opening quote is at `pos` to `out[end:]`: (position after it, end of out), or (BAD, end).

    `out` needs 32 bytes more than the string. Special bytes are found in bitmaps of 64 bytes; the bytes between them
    are copied at once.
    """
    pos += 1
    last_block = text.shape[0] - REACH
    while pos < stop and pos <= last_block:
        special = special_bits(text, pos)
        if stop - pos < BLOCK:
            special &= (ONE << np.uint64(stop - pos)) - ONE
        plain_start = pos
        block_end = min(pos + BLOCK, stop)
        while special != NONE:
            special_pos = pos + trailing_zeros(special)
            byte = text[special_pos]
            if byte >= 0x80:
                size = valid_width(text, special_pos, stop)
                if size == 0:
                    return np.int64(BAD), end
                special_end = special_pos + size
            else:
                end = copy_plain(text, plain_start, special_pos, out, end)
                if byte == QUOTE:
                    return special_pos + 1, end
                if byte != BACKSLASH:
                    return np.int64(BAD), end
                special_end, end = read_escape(text, special_pos, stop, out, end)
                if special_end == BAD:
                    return np.int64(BAD), end
                plain_start = special_end
            if special_end >= block_end:
                block_end = special_end
                break
            special &= ALL_BITS << np.uint64(special_end - pos)
        end = copy_plain(text, plain_start, block_end, out, end)
        pos = block_end
    return read_string_tail(text, pos, stop, out, end)


@helper
def read_string_tail(text, pos, stop, out, end):
    """Continue `read_string` inside a string byte by byte, because no block fits into the array any more."""
    while pos < stop:
        byte = text[pos]
        if byte == QUOTE:
            return pos + 1, end
        if byte == BACKSLASH:
            pos, end = read_escape(text, pos, stop, out, end)
            if pos == BAD:
                return np.int64(BAD), end
            continue
        if byte < 0x20:
            return np.int64(BAD), end
        size = 1 if byte < 0x80 else valid_width(text, pos, stop)
        if size == 0:
            return np.int64(BAD), end
        for k in range(size):
            out[end + k] = text[pos + k]
        end += size
        pos += size
    return np.int64(BAD), end


@helper
def is_name(text, start, stop, name):
    if stop - start != name.shape[0]:
        return False
    for k in range(name.shape[0]):
        if text[start + k] != name[k]:
            return False
    return True


@helper
def skip_literal(text, pos, stop, literal):
    """Return the position after `literal`, or BAD."""
    end = pos + literal.shape[0]
    return end if end <= stop and is_name(text, pos, end, literal) else np.int64(BAD)


@helper
def skip_digits(text, pos, stop):
    """Return the position after one digit or more, or BAD."""
    start = pos
    while pos < stop and 48 <= text[pos] <= 57:
        pos += 1
    return pos if pos > start else np.int64(BAD)


@helper
def skip_number(text, pos, stop):
    """Return the position after the number at `pos`, or BAD."""
    if pos < stop and text[pos] == MINUS:
        pos += 1
    if pos < stop and text[pos] == ZERO:
        pos += 1
    else:
        pos = skip_digits(text, pos, stop)
    if pos != BAD and pos < stop and text[pos] == DOT:
        pos = skip_digits(text, pos + 1, stop)
    if pos != BAD and pos < stop and text[pos] | 0x20 == 0x65:
        pos += 1
        if pos < stop and (text[pos] == PLUS or text[pos] == MINUS):
            pos += 1
        pos = skip_digits(text, pos, stop)
    return pos


@helper
def skip_scalar(text, pos, stop, out, end):
    """Return the position after the string, number or literal at `pos`, or BAD; strings are decoded to `out[end:]`."""
    if pos >= stop:
        return np.int64(BAD)
    byte = text[pos]
    if byte == QUOTE:
        return read_string(text, pos, stop, out, end)[0]
    if byte == 0x74:
        return skip_literal(text, pos, stop, TRUE)
    if byte == 0x66:
        return skip_literal(text, pos, stop, FALSE)
    if byte == 0x6E:
        return skip_literal(text, pos, stop, NULL)
    return skip_number(text, pos, stop)


@helper
def read_name(text, pos, stop, out, end):
    """Decode a member's name to `out[end:]`: (position of its value, end of the name in `out`, and in `text`).

    The first position is BAD if this is not a name with a colon; white space around both is skipped.
    """
    pos = skip_whitespace(text, pos, stop)
    if pos >= stop or text[pos] != QUOTE:
        return np.int64(BAD), end, pos
    name_stop, end = read_string(text, pos, stop, out, end)
    if name_stop == BAD:
        return np.int64(BAD), end, pos
    pos = skip_whitespace(text, name_stop, stop)
    if pos >= stop or text[pos] != COLON:
        return np.int64(BAD), end, name_stop
    return skip_whitespace(text, pos + 1, stop), end, name_stop


@inlined
def open_value(text, pos, stop, closing):
    """Enter the array or object at `pos`: (position of its first value or name, True), or (position after it, False)
    if it is empty.
    """
    pos = skip_whitespace(text, pos + 1, stop)
    if pos < stop and text[pos] == closing:
        return pos + 1, False
    return pos, True


@inlined
def next_value(text, pos, stop, closing):
    """Read what follows a value: (position after the comma or `closing`, whether it was a comma), or (BAD, False)."""
    pos = skip_whitespace(text, pos, stop)
    if pos >= stop or (text[pos] != COMMA and text[pos] != closing):
        return np.int64(BAD), False
    return pos + 1, text[pos] == COMMA


@helper
def skip_value(text, pos, stop, depth, limit, out, end):
    """Return the position after the value at `pos`, or BAD; it is inside `depth` of at most `limit` levels.

    `out[end:]` is scratch: the closing brackets of the open levels, then the current string, together never more than
    the text itself.
    """
    top = end
    while True:
        pos = skip_whitespace(text, pos, stop)
        if pos < stop and (text[pos] == OPEN_ARRAY or text[pos] == OPEN_OBJECT):
            if depth + top - end == limit:
                return np.int64(BAD)
            closing = text[pos] + 2
            out[top] = closing
            top += 1
            pos = skip_whitespace(text, pos + 1, stop)
            if pos < stop and text[pos] == closing:
                pos += 1
                top -= 1
            else:
                if closing == CLOSE_OBJECT:
                    pos, _, _ = read_name(text, pos, stop, out, top)
                    if pos == BAD:
                        return pos
                continue
        else:
            pos = skip_scalar(text, pos, stop, out, top)
            if pos == BAD:
                return pos
        while top > end:
            pos = skip_whitespace(text, pos, stop)
            if pos >= stop:
                return np.int64(BAD)
            if text[pos] == COMMA:
                pos += 1
                break
            if text[pos] != out[top - 1]:
                return np.int64(BAD)
            pos += 1
            top -= 1
        if top == end:
            return pos
        if out[top - 1] == CLOSE_OBJECT:
            pos, _, _ = read_name(text, pos, stop, out, top)
            if pos == BAD:
                return pos

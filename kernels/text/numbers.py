"""Numbers in words: runs of digits (docs/rules.md, Gates), which may be parts of a word."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import TEXT, WORD_STAMPS
from .interning import intern
from .strings import decode, encode, width
from .unicode import LETTER, is_digit, kind_of
from .words import DOT

ZERO, NON_ASCII = 0x30, 0x80

DIGIT_LEADS = np.zeros(256, np.bool_)
"""First bytes of the decimal digits of other scripts than ASCII."""
DIGIT_LEADS[[0xD9, 0xDB, 0xDF, 0xE0, 0xE1, 0xEA, 0xF0]] = True


@inlined
def has_digit(text, start, stop, tables):
    """Return whether the word `text[start:stop]` has a decimal digit of any script."""
    for k in range(start, stop):
        if is_digit(text[k]) or (DIGIT_LEADS[text[k]] and kind_of(decode(text, k), tables) < LETTER):
            return True
    return False


@inlined
def next_number(text, pos, stop):
    r"""Return (start, stop) of the next run of digits `D(\.D)*` of `text[pos:stop]`; the start is `stop` after the
    last.
    """
    while pos < stop and not is_digit(text[pos]):
        pos += 1
    start = pos
    while pos < stop and (is_digit(text[pos]) or (text[pos] == DOT and pos + 1 < stop and is_digit(text[pos + 1]))):
        pos += 1
    return start, pos


@helper
def write_with_ascii_digits(text, start, stop, tables, out):
    """Write `text[start:stop]` to `out`, with ASCII digits for the decimal digits of any script; returns its end."""
    end = np.int64(0)
    while start < stop:
        code = decode(text, start)
        kind = kind_of(code, tables)
        end = encode(ZERO + kind if kind < LETTER else code, out, end)
        start += width(text[start])
    return end


@helper
def mark_ascii_numbers(workspace, text, start, stop, known, mark):
    """Do what `mark_numbers` does for a word whose digits are ASCII."""
    ints = workspace.ints
    marked = np.int64(0)
    while start < stop:
        start, end = next_number(text, start, stop)
        if start < end:
            string = intern(workspace, text, start, end - start)
            if ints[WORD_STAMPS, string] != known and ints[WORD_STAMPS, string] != mark:
                ints[WORD_STAMPS, string] = mark
                marked += 1
        start = end
    return marked


@helper
def mark_numbers(workspace, tables, text, start, stop, known, mark):
    """Stamp the numbers in the word `text[start:stop]` with `mark`, unless they are stamped with `known` or `mark`;
    returns how many it has stamped. Decimal digits of any script are read as ASCII digits; overwrites TEXT.
    """
    is_ascii = True
    for k in range(start, stop):
        is_ascii &= text[k] < NON_ASCII
    if is_ascii:
        return mark_ascii_numbers(workspace, text, start, stop, known, mark)
    out = workspace.bytes[TEXT]
    end = write_with_ascii_digits(text, start, stop, tables, out)
    return mark_ascii_numbers(workspace, out, np.int64(0), end, known, mark)


@helper
def has_numbers(workspace, tables, text, start, stop, mark):
    """Return whether the word `text[start:stop]` has numbers and all of them are stamped with `mark`; overwrites
    TEXT.
    """
    out, pos, numbers = workspace.bytes[TEXT], np.int64(0), 0
    end = write_with_ascii_digits(text, start, stop, tables, out)
    while pos < end:
        start, pos = next_number(out, pos, end)
        if start < pos:
            numbers += 1
            if workspace.ints[WORD_STAMPS, intern(workspace, out, start, pos - start)] != mark:
                return False
    return numbers > 0

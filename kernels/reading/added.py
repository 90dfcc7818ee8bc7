"""What only the prose of a step has: numbers (docs/rules.md, Gates)."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import CANON, IDS, LENGTHS, NORM, SPAN_STARTS, SPAN_STOPS, STARTS, TEXT, WORD_STAMPS, WORD_STOP, WORDS
from ..text.interning import intern
from ..text.strings import decode, encode, width
from ..text.unicode import LETTER, is_digit, kind_of
from ..text.words import DOT, is_canonical_unit

ZERO, NON_ASCII = 0x30, 0x80


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
    has_digit, is_ascii = False, True
    for k in range(start, stop):
        has_digit |= is_digit(text[k])
        is_ascii &= text[k] < NON_ASCII
    if is_ascii:
        return mark_ascii_numbers(workspace, text, start, stop, known, mark) if has_digit else np.int64(0)
    out, end = workspace.bytes[TEXT], np.int64(0)
    while start < stop:
        code = decode(text, start)
        kind = kind_of(code, tables)
        end = encode(ZERO + kind if kind < LETTER else code, out, end)
        start += width(text[start])
    return mark_ascii_numbers(workspace, out, np.int64(0), end, known, mark)


STEP_BYTES = np.frombuffer(b"steps", np.uint8)
MAX_STEP_DIGITS = 4


@helper
def is_step_word(norm, start, stop):
    """Return whether the word `norm[start:stop]` is `step` or `steps`."""
    if stop - start != 4 and stop - start != 5:
        return False
    for k in range(stop - start):
        if norm[start + k] != STEP_BYTES[k]:
            return False
    return True


@helper
def names_step(ints, norm, k, count, steps):
    """Return whether word `k` of the first `count` words of the prose is the number of one of `steps` steps, right
    after `step` or `steps`, and no quantity.
    """
    start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
    if k == 0 or stop - start > MAX_STEP_DIGITS:
        return False
    if not is_step_word(norm, ints[SPAN_STARTS, k - 1], ints[SPAN_STOPS, k - 1]):
        return False
    number = np.int64(0)
    for i in range(start, stop):
        if not is_digit(norm[i]):
            return False
        number = 10 * number + np.int64(norm[i]) - ZERO
    if k + 1 < count and is_canonical_unit(norm, ints[SPAN_STARTS, k + 1], ints[SPAN_STOPS, k + 1]):
        return False
    return 1 <= number <= steps


@helper
def count_added_numbers(workspace, tables, row, count, steps):
    """Count the distinct numbers among the `count` words of the prose of key step `row` that no word of the step has
    and that occur at least once not as the name of one of `steps` steps.
    """
    ints = workspace.ints
    norm, canon = workspace.bytes[NORM], workspace.bytes[CANON]
    known = np.int64(row + 1)
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        start = ints[STARTS, ints[IDS, k]]
        mark_numbers(workspace, tables, canon, start, start + ints[LENGTHS, ints[IDS, k]], known, known)
    added = np.int64(0)
    for k in range(count):
        if not names_step(ints, norm, k, count, steps):
            start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
            added += mark_numbers(workspace, tables, norm, start, stop, known, -known)
    return added

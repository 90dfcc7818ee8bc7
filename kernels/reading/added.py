"""What only the prose of a step has: numbers and words (docs/rules.md, Gates)."""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import (
    CANON,
    IDS,
    KEY_WORD_STARTS,
    KEY_WORD_STOPS,
    KIN,
    LENGTHS,
    NORM,
    SOUGHT_STARTS,
    SOUGHT_STOPS,
    SPAN_STARTS,
    SPAN_STOPS,
    STARTS,
    WORD_STAMPS,
    WORD_STOP,
    WORDS,
    is_plain,
)
from ..text.interning import intern
from ..text.numbers import ZERO, has_digit, mark_numbers, next_number
from ..text.unicode import is_digit, is_letter
from ..text.words import MAX_LENGTH, UNITS, find_name, hash_names, is_canonical_unit, read_parts
from .kin import NO_KIN, REPEATED, SAME, find_kin, has_letter

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
def count_added_numbers(workspace, tables, row, count, steps, limit):
    """Count the distinct numbers among the `count` words of the prose of key step `row` that no word of the step has
    and that occur at least once not as the name of one of `steps` steps; stops soon after `limit`.
    """
    ints = workspace.ints
    norm, canon = workspace.bytes[NORM], workspace.bytes[CANON]
    known = np.int64(row + 1)
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        word = ints[IDS, k]
        start, stop = ints[STARTS, word], ints[STARTS, word] + ints[LENGTHS, word]
        if is_digit(canon[start]) and next_number(canon, start, stop)[1] == stop:
            ints[WORD_STAMPS, word] = known
        elif not is_plain(canon, start, stop) and has_digit(canon, start, stop, tables):
            mark_numbers(workspace, tables, canon, start, stop, known, known)
    added = np.int64(0)
    for k in range(count):
        if added > limit:
            break
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        if is_plain(norm, start, stop) or not has_digit(norm, start, stop, tables):
            continue
        if not names_step(ints, norm, k, count, steps):
            added += mark_numbers(workspace, tables, norm, start, stop, known, -known)
    return added


NEGATION_LIST = """
avoid avoiding cannot except instead neither never no none nor not omit omitting rather skip skipping t unless without
"""
FUNCTION_WORD_LIST = """
a about above after all also among an and another any approximately are around as at be been before being below
between both by can could did do does down during each ensure ensuring every finally first for from further had has
have if in into is it its may must next of off on onto or other out over per same second shall should so some step
steps such that the their them then there these they third this those through thus to under until up use used using
via was were when where which while will with within would you your
"""
NEGATIONS = NEGATION_LIST.split()
HEADS, TAILS, NAME_LENGTHS, NAME_SLOTS = hash_names([*NEGATIONS, *FUNCTION_WORD_LIST.split(), *UNITS])
IS_NEGATION = np.isin(np.arange(len(HEADS)), [NAME_SLOTS[name] for name in NEGATIONS])

ORDINARY, GRAMMATICAL, NEGATION = range(3)
"""Kinds of words; function words and canonical units are GRAMMATICAL."""

NEGATED = np.iinfo(np.int64).max
"""The number of added words of a step with a negation of its own: more than any limit."""


@inlined
def kind_of_word(norm, start, stop):
    if stop - start > MAX_LENGTH:
        return ORDINARY
    slot = find_name(HEADS, TAILS, NAME_LENGTHS, norm, start, stop)
    if slot < 0:
        return ORDINARY
    return NEGATION if IS_NEGATION[slot] else GRAMMATICAL


@inlined
def append_key_word(ints, count, word):
    """Append the span of a string to those of the key step; returns the new number."""
    ints[KEY_WORD_STARTS, count] = ints[STARTS, word]
    ints[KEY_WORD_STOPS, count] = ints[STARTS, word] + ints[LENGTHS, word]
    return count + 1


@helper
def find_words_of_step(workspace, tables, row):
    """Write the spans in CANON of the words of key step `row` and of their parts to KEY_WORD_STARTS and KEY_WORD_STOPS;
    returns their number.
    """
    ints, canon = workspace.ints, workspace.bytes[CANON]
    count = np.int64(0)
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        word = ints[IDS, k]
        count = append_key_word(ints, count, word)
        start, length = ints[STARTS, word], ints[LENGTHS, word]
        if is_plain(canon, start, start + length):
            continue
        parts = read_parts(workspace, tables, canon, start, length)
        for part in range(parts):
            start = ints[SPAN_STARTS, part]
            part_word = intern(workspace, workspace.bytes[NORM], start, ints[SPAN_STOPS, part] - start)
            count = append_key_word(ints, count, part_word)
    return count


@helper
def find_content_words(workspace, tables, first, last):
    """Write the spans of the words `first` to `last` of the prose that have a letter and are neither function words nor
    units to SOUGHT_STARTS and SOUGHT_STOPS; returns their number.
    """
    ints, norm = workspace.ints, workspace.bytes[NORM]
    count = np.int64(0)
    for k in range(first, last):
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        if kind_of_word(norm, start, stop) != GRAMMATICAL and (
            is_letter(norm, start, tables) or has_letter(norm, start, stop, tables)
        ):
            ints[SOUGHT_STARTS, count] = start
            ints[SOUGHT_STOPS, count] = stop
            count += 1
    return count


OWN = -(1 << 33)
"""The stamp of the added words of the first step; that of others is less."""


@helper
def count_added_words(workspace, tables, row, key_words, first, last, limit):
    """Count the distinct words of its own among the parts `first` to `last` of the prose of key step `row`, whose words
    and parts are the first `key_words` in KEY_WORD_STARTS; stops after `limit`. NEGATED if there is a negation.
    """
    ints, norm = workspace.ints, workspace.bytes[NORM]
    count = find_content_words(workspace, tables, first, last)
    are_distinct = find_kin(workspace, tables, NORM, count, CANON, KEY_WORD_STARTS, key_words, False)
    added = np.int64(0)
    for k in range(count):
        if ints[KIN, k] == SAME or ints[KIN, k] == REPEATED:
            continue
        if added > limit:
            break
        start, stop = ints[SOUGHT_STARTS, k], ints[SOUGHT_STOPS, k]
        if kind_of_word(norm, start, stop) == NEGATION:
            return np.int64(NEGATED)
        if ints[KIN, k] == NO_KIN and are_distinct:
            added += 1
        elif ints[KIN, k] == NO_KIN:
            word = intern(workspace, norm, start, stop - start)
            added += ints[WORD_STAMPS, word] != OWN - row
            ints[WORD_STAMPS, word] = OWN - row
    return added

"""What only the prose of a step has: numbers and words (docs/rules.md, Gates)."""

from __future__ import annotations

import numpy as np

from ..compiler import allocating, helper, inlined
from ..memory import (
    CANON,
    COUNTS,
    IDS,
    IDS_USED,
    LENGTHS,
    MISSING,
    NORM,
    SPAN_STARTS,
    SPAN_STOPS,
    STARTS,
    WORD_STOP,
    WORDS,
)
from ..text.interning import intern
from ..text.numbers import ZERO, mark_numbers
from ..text.unicode import is_digit
from ..text.words import MAX_LENGTH, UNITS, find_name, hash_names, is_canonical_unit, read_parts
from .trie import COUNTED, WHOLE, find_marks, has_letter, insert, mark_word, slots_of_edges

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


@helper
def read_parts_of_step(workspace, tables, row):
    """Append the parts of the words of key step `row` that are not whole words to IDS; returns their number."""
    ints = workspace.ints
    used = ints[COUNTS, IDS_USED]
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        word = ints[IDS, k]
        parts = read_parts(workspace, tables, workspace.bytes[CANON], ints[STARTS, word], ints[LENGTHS, word])
        for part in range(parts):
            start = ints[SPAN_STARTS, part]
            ints[IDS, used] = intern(workspace, workspace.bytes[NORM], start, ints[SPAN_STOPS, part] - start)
            used += 1
    return used - ints[COUNTS, IDS_USED]


@helper
def find_content_words(workspace, tables, first, last):
    """Write to MISSING which of the words `first` to `last` of the prose have a letter and are neither function words
    nor units: (how many these are, their bytes).
    """
    ints, norm = workspace.ints, workspace.bytes[NORM]
    found = size = np.int64(0)
    for k in range(first, last):
        start, stop = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        if kind_of_word(norm, start, stop) != GRAMMATICAL and has_letter(norm, start, stop, tables):
            ints[MISSING, found] = k
            found += 1
            size += stop - start
    return found, size


@helper
def mark_strings(workspace, first, last, nodes, root, edges):
    """Mark the strings IDS[first:last] in a trie."""
    ints = workspace.ints
    for k in range(first, last):
        start = ints[STARTS, ints[IDS, k]]
        stop = start + ints[LENGTHS, ints[IDS, k]]
        mark_word(workspace.bytes[CANON], start, stop, True, nodes, root, edges, workspace.seed)


@allocating
def count_own_words(workspace, row, parts, found, size):
    """Do what `count_added_words` does for the first `found` words in MISSING, of `size` bytes."""
    ints, norm, seed = workspace.ints, workspace.bytes[NORM], workspace.seed
    nodes = np.zeros(size + 1, np.uint16)
    root = np.zeros(256, np.int64)
    edges = np.zeros((slots_of_edges(found), 2), np.int64)
    used = np.int64(1)
    for k in range(found):
        word = ints[MISSING, k]
        _, used = insert(norm, ints[SPAN_STARTS, word], ints[SPAN_STOPS, word], used, nodes, root, edges, seed)
    mark_strings(workspace, ints[WORDS, row], ints[WORD_STOP, row], nodes, root, edges)
    mark_strings(workspace, ints[COUNTS, IDS_USED], ints[COUNTS, IDS_USED] + parts, nodes, root, edges)
    added = np.int64(0)
    for k in range(found):
        start, stop = ints[SPAN_STARTS, ints[MISSING, k]], ints[SPAN_STOPS, ints[MISSING, k]]
        node, is_akin = find_marks(norm, start, stop, nodes, root, edges, seed)
        if nodes[node] & (WHOLE | COUNTED):
            continue
        if kind_of_word(norm, start, stop) == NEGATION:
            return np.int64(NEGATED)
        if not is_akin:
            nodes[node] |= COUNTED
            added += 1
    return added


@helper
def count_added_words(workspace, tables, row, parts, first, last):
    """Count the distinct words of its own among the parts `first` to `last` of the prose of key step `row`, whose
    `parts` parts follow IDS; NEGATED if there is a negation.
    """
    found, size = find_content_words(workspace, tables, first, last)
    return count_own_words(workspace, row, parts, found, size) if found else np.int64(0)

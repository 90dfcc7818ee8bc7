"""Consistency of key and prose (paper C.1, SCORE.md section 3): the share of a step's words found in its prose.

The words of the prose are not made distinct: each leaves its number where its hash points to, whatever stood there, or,
where there are many, beside it if that place is taken. There the words of the key step are looked up, and compared byte
by byte; those that are not found, because they stand inside a longer word, or were overwritten, or are not there, are
searched for.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.hashing import ODD_A, ODD_B, head_of, tail_of
from ..memory.load_store import read_only
from ..memory.workspace import (
    CANON,
    COUNTS,
    HEADS,
    IDS,
    LENGTHS,
    MISSING,
    NORM,
    SEEN,
    SEEN_SLOTS,
    SEEN_STAMP,
    SPAN_STARTS,
    SPAN_STOPS,
    STARTS,
    WORD_STAMPS,
    WORD_STOP,
    WORDS,
)
from ..text.interning import same_bytes
from .aho_corasick import count_occurring

__all__ = ["step_coverage"]

PATIENCE, MAX_PATIENCE = 4, 1 << 12
"""Comparisons a byte, and in all, that plain search may spend before the automaton takes over."""

STAMP_SHIFT = 32
STAMP_LIMIT = 1 << 31
WORD_MASK = 0xFFFFFFFF
HALF = np.uint64(32)


@inlined
def place_of(head, tail, seed, mask):
    """Index in SEEN, of which `mask` + 1 places are used, of a word by its first and its last eight bytes."""
    return np.int64(((head ^ seed) * ODD_A ^ (tail ^ seed) * ODD_B) * ODD_A >> HALF) & mask


@inlined
def seen_mask(count):
    """Places for `count` words, less 1: a power of two, four times as many, so that few fall together."""
    mask = np.int64(SEEN_SLOTS - 1)
    while mask < 4 * count:
        mask = 2 * mask + 1
    return mask


@inlined
def next_stamp(ints):
    """A stamp that does not stand in SEEN yet."""
    ints[COUNTS, SEEN_STAMP] += 1
    if ints[COUNTS, SEEN_STAMP] == STAMP_LIMIT:
        ints[SEEN, :] = 0
        ints[COUNTS, SEEN_STAMP] = 1
    return ints[COUNTS, SEEN_STAMP]


@inlined
def note_prose(space, count, stamp, mask):
    """Leave the numbers of the first `count` words of the prose in SEEN; returns the length of the longest."""
    ints = space.ints
    norm = space.bytes[NORM]
    longest = np.int64(0)
    crowded = mask >= SEEN_SLOTS
    for k in range(count):
        start = ints[SPAN_STARTS, k]
        length = ints[SPAN_STOPS, k] - start
        place = place_of(head_of(norm, start, length), tail_of(norm, start, length), space.seed, mask)
        if crowded and ints[SEEN, place] >> STAMP_SHIFT == stamp:
            place ^= 1
        ints[SEEN, place] = stamp << STAMP_SHIFT | k
        longest = max(longest, length)
    return longest


@inlined
def stands_in(space, place, word, stamp):
    """Whether the word of the prose whose number stands in SEEN at `place` is the string `word`."""
    ints = space.ints
    held = ints[SEEN, place]
    if held >> STAMP_SHIFT != stamp:
        return False
    start, length = ints[STARTS, word], ints[LENGTHS, word]
    begin = ints[SPAN_STARTS, held & WORD_MASK]
    if ints[SPAN_STOPS, held & WORD_MASK] - begin != length:
        return False
    return same_bytes(read_only(space.bytes[NORM]), begin, space.bytes[CANON], start, length)


@inlined
def is_seen(space, word, stamp, mask):
    """Whether the string `word` is a word of the prose that its hash points to: where there are many, one of two."""
    ints = space.ints
    tail = tail_of(space.bytes[CANON], ints[STARTS, word], ints[LENGTHS, word])
    place = place_of(np.uint64(ints[HEADS, word]), tail, space.seed, mask)
    return stands_in(space, place, word, stamp) or (mask >= SEEN_SLOTS and stands_in(space, place ^ 1, word, stamp))


@helper
def search(text, start, stop, word, begin, length, budget):
    """Plain search for `word[begin:begin + length]` in `text[start:stop]`: (found, budget left)."""
    lead = word[begin]
    for i in range(start, stop - length + 1):
        budget -= 1
        if text[i] != lead:
            continue
        k = 1
        while k < length and text[i + k] == word[begin + k]:
            k += 1
        if k == length:
            return True, budget
        budget -= k
        if budget < 0:
            return False, budget
    return False, budget


@helper
def search_prose(space, word, count, budget):
    """Plain search for a string in the first `count` words of the prose: (found, budget left)."""
    ints = space.ints
    start, length = ints[STARTS, word], ints[LENGTHS, word]
    for k in range(count):
        begin, end = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        budget -= 1
        if end - begin >= length:
            found, budget = search(space.bytes[NORM], begin, end, space.bytes[CANON], start, length, budget)
            if found or budget < 0:
                return found, budget
    return False, budget


@helper
def count_inside(space, count, longest, absent):
    """How many of the first `absent` strings in MISSING occur inside one of the first `count` words of the prose.

    A word has no space, so it can only stand inside one word of the prose. Plain search serves the few short words of
    usual steps; its cost is counted, and where it exceeds a fixed number of comparisons a byte, the words that are left
    go to the automaton. So all is linear in the bytes of the words together.
    """
    ints = space.ints
    budget = np.int64(0)
    for k in range(count):
        budget += ints[SPAN_STOPS, k] - ints[SPAN_STARTS, k]
    left = np.int64(0)
    for k in range(absent):
        word = ints[MISSING, k]
        if ints[LENGTHS, word] <= longest:
            budget += ints[LENGTHS, word]
            ints[MISSING, left] = word
            left += 1
    budget = min(PATIENCE * budget, MAX_PATIENCE)
    found = 0
    for k in range(left):
        inside, budget = search_prose(space, ints[MISSING, k], count, budget)
        if budget < 0 and not inside:
            return found + count_occurring(space.bytes, ints, count, k, left, space.seed)
        found += inside
    return found


@helper
def step_coverage(space, row, count):
    """cov_i of key step `row` by the `count` words of prose at hand: covered words over distinct words."""
    ints = space.ints
    stamp = next_stamp(ints)
    mask = seen_mask(count)
    longest = note_prose(space, count, stamp, mask)
    distinct = 0
    covered = 0
    absent = np.int64(0)
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        word = ints[IDS, k]
        if ints[WORD_STAMPS, word] == row + 1:
            continue
        ints[WORD_STAMPS, word] = row + 1
        distinct += 1
        if is_seen(space, word, stamp, mask):
            covered += 1
        else:
            ints[MISSING, absent] = word
            absent += 1
    if absent:
        covered += count_inside(space, count, longest, absent)
    return covered / distinct

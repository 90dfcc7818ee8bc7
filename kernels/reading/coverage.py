"""Coverage: the share of a key step's words that its prose contains.

Words that are parts of others are found by an automaton: a trie whose nodes have links to their longest proper suffixes
that are nodes. Only nodes that the texts reach are linked, when they are reached: their parents, and all suffixes of
their parents, were reached before. Words that have nothing in common with the texts cost only their nodes.

The words of the prose are indexed in a lossy hash table: each overwrites its slot, or, if there are many, takes the
neighbouring slot if its own is taken. The words of the key step are looked up there and compared byte by byte. Words
that are not there, because they are part of a longer word, overwritten or absent, are searched for.
"""

from __future__ import annotations

import numpy as np

from ..compiler import allocating, helper, inlined
from ..memory import (
    CANON,
    COUNTS,
    HEADS,
    IDS,
    KIN,
    LENGTHS,
    MIN_PROSE_SLOTS,
    MISSING,
    NORM,
    ODD_A,
    ODD_B,
    PROSE_SLOTS,
    PROSE_STAMP,
    SOUGHT_STARTS,
    SOUGHT_STOPS,
    SPAN_STARTS,
    SPAN_STOPS,
    STARTS,
    WORD_STAMPS,
    WORD_STOP,
    WORDS,
    head_of,
    read_only,
    tail_of,
)
from ..text.interning import same_bytes
from ..text.numbers import has_numbers, mark_numbers
from .kin import AKIN, SAME, find_kin, has_letter
from .trie import child_of, insert, slots_of_edges

REACHED = 1 << 10
"""A flag: the node, or one that has it as a suffix, has been reached. It is linked, and its suffixes are REACHED."""


@inlined
def advance(nodes, links, root, edges, node, byte, seed):
    """Return (the longest suffix of the linked `node` that has a child by `byte`, that child), or the root's pair."""
    while node != 0:
        child = child_of(nodes, root, edges, node, byte, seed)
        if child != 0:
            return node, child
        node = np.int64(links[node])
    return node, root[byte]


@helper
def build_trie(text, ints, first, last, nodes, root, edges, ends, seed):
    """Insert the strings MISSING[first:last] of `text`; `ends[k]` is the node of string `first + k`."""
    nodes[0] = 0
    used = np.int64(1)
    for k in range(first, last):
        word = ints[MISSING, k]
        start = ints[STARTS, word]
        ends[k - first], used = insert(text, start, start + ints[LENGTHS, word], used, nodes, root, edges, seed)


@inlined
def reach(nodes, links, root, edges, parent, byte, node, seed):
    """Mark and link `node`, the child of `parent` by `byte`, and its suffixes, unless they are."""
    while node != 0 and not nodes[node] & REACHED:
        suffix = np.int64(0)
        if parent != 0:
            parent, suffix = advance(nodes, links, root, edges, np.int64(links[parent]), byte, seed)
        nodes[node] |= REACHED
        links[node] = suffix
        node = suffix


@helper
def mark_nodes(texts, ints, count, nodes, links, root, edges, seed):
    """Run the automaton over the first `count` words of the prose and mark every node that it reaches."""
    for k in range(count):
        node = np.int64(0)
        for i in range(ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]):
            byte = np.int64(texts[NORM, i])
            parent, node = advance(nodes, links, root, edges, node, byte, seed)
            reach(nodes, links, root, edges, parent, byte, node, seed)


@allocating
def count_occurring(texts, ints, count, first, last, seed):
    """Count the strings MISSING[first:last] that occur inside one of the first `count` words of the prose.

    texts, ints: the arrays of the workspace. Time and memory are linear in the bytes of the strings and the prose.
    """
    size = np.int64(1)
    for k in range(first, last):
        size += ints[LENGTHS, ints[MISSING, k]]
    nodes = np.empty(size, np.uint16)
    links = np.empty(size, np.int32)
    root = np.zeros(256, np.int64)
    edges = np.zeros((slots_of_edges(last - first), 2), np.int64)
    ends = np.empty(last - first, np.int64)
    build_trie(texts[CANON], ints, first, last, nodes, root, edges, ends, seed)
    mark_nodes(texts, ints, count, nodes, links, root, edges, seed)
    occurring = 0
    for k in range(last - first):
        occurring += nodes[ends[k]] & REACHED != 0
    return occurring


COMPARISONS_PER_BYTE, MAX_COMPARISONS = 4, 1 << 12
"""Comparisons for each byte, and in total, that naive search may spend before the automaton takes over."""

STAMP_SHIFT = 32
STAMP_LIMIT = 1 << 31
WORD_MASK = 0xFFFFFFFF
HALF = np.uint64(32)


@inlined
def slot_of(head, tail, seed, mask):
    """Return the slot of a word with this head and tail among the `mask` + 1 slots in use of PROSE_SLOTS."""
    return np.int64(((head ^ seed) * ODD_A ^ (tail ^ seed) * ODD_B) * ODD_A >> HALF) & mask


@inlined
def prose_slot_mask(count):
    """Return the number of slots for `count` words, less 1: a power of two, at least four times as many."""
    mask = np.int64(MIN_PROSE_SLOTS - 1)
    while mask < 4 * count:
        mask = 2 * mask + 1
    return mask


@inlined
def next_stamp(ints):
    """Return a fresh stamp, which does not occur in PROSE_SLOTS."""
    ints[COUNTS, PROSE_STAMP] += 1
    if ints[COUNTS, PROSE_STAMP] == STAMP_LIMIT:
        ints[PROSE_SLOTS, :] = 0
        ints[COUNTS, PROSE_STAMP] = 1
    return ints[COUNTS, PROSE_STAMP]


@inlined
def index_prose_words(workspace, count, stamp, mask):
    """Index the first `count` words of the prose in PROSE_SLOTS; returns the length of the longest."""
    ints = workspace.ints
    norm = workspace.bytes[NORM]
    max_length = np.int64(0)
    crowded = mask >= MIN_PROSE_SLOTS
    for k in range(count):
        start = ints[SPAN_STARTS, k]
        length = ints[SPAN_STOPS, k] - start
        slot = slot_of(head_of(norm, start, length), tail_of(norm, start, length), workspace.seed, mask)
        if crowded and ints[PROSE_SLOTS, slot] >> STAMP_SHIFT == stamp:
            slot ^= 1
        ints[PROSE_SLOTS, slot] = stamp << STAMP_SHIFT | k
        max_length = max(max_length, length)
    return max_length


@inlined
def matches_word(workspace, slot, word, stamp):
    """Return whether the word of the prose in `slot` is the string `word`."""
    ints = workspace.ints
    entry = ints[PROSE_SLOTS, slot]
    if entry >> STAMP_SHIFT != stamp:
        return False
    start, length = ints[STARTS, word], ints[LENGTHS, word]
    begin = ints[SPAN_STARTS, entry & WORD_MASK]
    if ints[SPAN_STOPS, entry & WORD_MASK] - begin != length:
        return False
    return same_bytes(read_only(workspace.bytes[NORM]), begin, workspace.bytes[CANON], start, length)


@inlined
def occurs_as_word(workspace, word, stamp, mask):
    """Return whether the string `word` is a word of the prose that was not overwritten."""
    ints = workspace.ints
    tail = tail_of(workspace.bytes[CANON], ints[STARTS, word], ints[LENGTHS, word])
    slot = slot_of(np.uint64(ints[HEADS, word]), tail, workspace.seed, mask)
    return matches_word(workspace, slot, word, stamp) or (
        mask >= MIN_PROSE_SLOTS and matches_word(workspace, slot ^ 1, word, stamp)
    )


@helper
def find_bounded(text, start, stop, word, begin, length, budget):
    """Search `text[start:stop]` for `word[begin:begin + length]` naively: (whether it occurs, budget left)."""
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
def find_in_prose(workspace, word, count, budget):
    """Search the first `count` words of the prose for a string naively: (whether it occurs, budget left)."""
    ints = workspace.ints
    start, length = ints[STARTS, word], ints[LENGTHS, word]
    for k in range(count):
        begin, end = ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]
        budget -= 1
        if end - begin >= length:
            occurs, budget = find_bounded(
                workspace.bytes[NORM], begin, end, workspace.bytes[CANON], start, length, budget
            )
            if occurs or budget < 0:
                return occurs, budget
    return False, budget


@helper
def count_inside(workspace, count, max_length, absent):
    """Count the first `absent` strings in MISSING that occur inside one of the first `count` words of the prose.

    A word has no space, so it can only occur inside one word of the prose. Naive search serves the few short words of
    usual steps; when it exceeds a fixed number of comparisons for each byte, the remaining words go to the automaton.
    So the cost is linear in the bytes of all words.
    """
    ints = workspace.ints
    budget = np.int64(0)
    for k in range(count):
        budget += ints[SPAN_STOPS, k] - ints[SPAN_STARTS, k]
    left = np.int64(0)
    for k in range(absent):
        word = ints[MISSING, k]
        if ints[LENGTHS, word] <= max_length:
            budget += ints[LENGTHS, word]
            ints[MISSING, left] = word
            left += 1
    budget = min(COMPARISONS_PER_BYTE * budget, MAX_COMPARISONS)  # type: ignore[arg-type]
    total = 0
    for k in range(left):
        inside, budget = find_in_prose(workspace, ints[MISSING, k], count, budget)
        if budget < 0 and not inside:
            return total + count_occurring(workspace.bytes, ints, count, k, left, workspace.seed)
        total += inside
    return total


IN_PROSE = -(1 << 32)
"""The stamp of the numbers of the first step's prose; that of others is less."""


@helper
def count_akin(workspace, tables, row, count, absent):
    """Count the first `absent` strings in MISSING that the `count` words and parts of the prose of step `row` cover
    (docs/rules.md, Gates).
    """
    ints = workspace.ints
    norm, canon = workspace.bytes[NORM], workspace.bytes[CANON]
    for k in range(absent):
        ints[SOUGHT_STARTS, k] = ints[STARTS, ints[MISSING, k]]
        ints[SOUGHT_STOPS, k] = ints[SOUGHT_STARTS, k] + ints[LENGTHS, ints[MISSING, k]]
    find_kin(workspace, tables, CANON, absent, NORM, SPAN_STARTS, count, True)
    covered = 0
    mark, is_marked = np.int64(IN_PROSE - row), False
    for k in range(absent):
        start, stop, kin = ints[SOUGHT_STARTS, k], ints[SOUGHT_STOPS, k], ints[KIN, k]
        if kin == SAME or has_letter(canon, start, stop, tables):
            covered += kin == SAME or kin == AKIN
            continue
        for i in range(0 if is_marked else count):
            mark_numbers(workspace, tables, norm, ints[SPAN_STARTS, i], ints[SPAN_STOPS, i], mark, mark)
        is_marked = True
        covered += has_numbers(workspace, tables, canon, start, stop, mark)
    return covered


@helper
def step_coverage(workspace, tables, row, count, by_words):
    """Return cov_i of key step `row` by the `count` words of its prose, among them its parts if coverage is `by_words`:
    covered words over distinct words.
    """
    ints = workspace.ints
    stamp = next_stamp(ints)
    mask = prose_slot_mask(count)
    max_length = index_prose_words(workspace, count, stamp, mask)
    distinct = 0
    covered = 0
    absent = np.int64(0)
    for k in range(ints[WORDS, row], ints[WORD_STOP, row]):
        word = ints[IDS, k]
        if ints[WORD_STAMPS, word] == row + 1:
            continue
        ints[WORD_STAMPS, word] = row + 1
        distinct += 1
        if occurs_as_word(workspace, word, stamp, mask):
            covered += 1
        else:
            ints[MISSING, absent] = word
            absent += 1
    if absent:
        if by_words:
            covered += count_akin(workspace, tables, row, count, absent)
        else:
            covered += count_inside(workspace, count, max_length, absent)
    return covered / distinct

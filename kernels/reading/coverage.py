"""Coverage: the share of a key step's words that its prose contains.

A word that leaves the trie appends its remaining nodes as a chain. So nearly every node has one child, which is the
next node, and takes two bytes. The few other edges, at most one for each word, are in a hash table keyed by a secret
seed, so that no text can collide on purpose; the edges of the root are in an array of 256.

Only nodes that the texts reach are linked, when they are reached: their parents, and all suffixes of their parents,
were reached before. Words that have nothing in common with the texts cost only their nodes.

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
    LENGTHS,
    MIN_PROSE_SLOTS,
    MISSING,
    NORM,
    ODD_A,
    ODD_B,
    PROSE_SLOTS,
    PROSE_STAMP,
    SPAN_STARTS,
    SPAN_STOPS,
    STARTS,
    WORD_STAMPS,
    WORD_STOP,
    WORDS,
    head_of,
    mix,
    read_only,
    tail_of,
)
from ..text.interning import same_bytes

# A node: flags | byte of the edge to the next node. Its link is its longest proper suffix that is a node.
LABEL = 0xFF
CHAINED = 1 << 8
"""The next node is its child."""
BRANCHING = 1 << 9
"""The node has other children, in the hash table."""
REACHED = 1 << 10
"""The node, or one that has it as a suffix, has been reached: it is linked, and its suffixes are REACHED, too."""

# Columns of the hash table of edges.
KEY, TARGET = 0, 1
NO_KEY = 0
LABEL_BITS = np.uint64(8)


@inlined
def key_of(node, byte):
    """Return the edge from `node` by `byte` as a number that is not NO_KEY."""
    return (node << 8 | byte) + 1


@inlined
def edge_slot(edges, key, seed):
    """Return the slot that holds the edge, or the free slot for it."""
    mask = np.int64(edges.shape[0] - 1)
    slot = np.int64(mix(np.uint64(key) ^ seed) >> LABEL_BITS) & mask
    while edges[slot, KEY] != NO_KEY and edges[slot, KEY] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def child_of(nodes, root, edges, node, byte, seed):
    """Return the child of `node` by `byte`, or 0, the root, if it has no such child."""
    if node == 0:
        return root[byte]
    flags = np.int64(nodes[node])
    if flags & (CHAINED | LABEL) == CHAINED | byte:
        return node + 1
    if flags & BRANCHING:
        slot = edge_slot(edges, key_of(node, byte), seed)
        if edges[slot, KEY] != NO_KEY:
            return edges[slot, TARGET]
    return np.int64(0)


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
def add_chain(text, pos, stop, origin, used, nodes, root, edges, seed):
    """Add nodes for `text[pos:stop]`, which leaves the trie at `origin`; returns the new number of nodes."""
    byte = np.int64(text[pos])
    if origin == 0:
        root[byte] = used
    elif used == origin + 1:
        nodes[origin] |= CHAINED | byte
    else:
        key = key_of(origin, byte)
        slot = edge_slot(edges, key, seed)
        edges[slot, KEY], edges[slot, TARGET] = key, used
        nodes[origin] |= BRANCHING
    for i in range(pos + 1, stop):
        nodes[used] = CHAINED | np.int64(text[i])
        used += 1
    nodes[used] = 0
    return used + 1


@helper
def build_trie(text, ints, first, last, nodes, root, edges, ends, seed):
    """Insert the strings MISSING[first:last] of `text`; `ends[k]` is the node of string `first + k`."""
    nodes[0] = 0
    used = np.int64(1)
    for k in range(first, last):
        word = ints[MISSING, k]
        pos = ints[STARTS, word]
        stop = pos + ints[LENGTHS, word]
        node = np.int64(0)
        while pos < stop:
            child = child_of(nodes, root, edges, node, np.int64(text[pos]), seed)
            if child == 0:
                used = add_chain(text, pos, stop, node, used, nodes, root, edges, seed)
                child, pos = used - 1, stop
            node = child
            pos += 1
        ends[k - first] = node


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
    slots = 4
    while slots < 2 * (last - first):
        slots *= 2
    nodes = np.empty(size, np.uint16)
    links = np.empty(size, np.int32)
    root = np.zeros(256, np.int64)
    edges = np.zeros((slots, 2), np.int64)
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


@helper
def step_coverage(workspace, row, count):
    """Return cov_i of key step `row` by the `count` words of its prose: covered words over distinct words."""
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
        covered += count_inside(workspace, count, max_length, absent)
    return covered / distinct

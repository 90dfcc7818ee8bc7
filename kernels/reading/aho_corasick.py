"""Finds which of several words occur in texts: Aho and Corasick's automaton (1975), linear in texts and words together.

A word that leaves the trie appends its remaining nodes as a chain. So nearly every node has one child, which is the
next node, and takes two bytes. The few other edges, at most one for each word, are in a hash table keyed by a secret
seed, so that no text can collide on purpose; the edges of the root are in an array of 256.

Only nodes that the texts reach are linked, when they are reached: their parents, and all suffixes of their parents,
were reached before. Words that have nothing in common with the texts cost only their nodes.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import allocating, helper, inlined
from ..memory.hashing import mix
from ..memory.workspace import CANON, LENGTHS, MISSING, NORM, SPAN_STARTS, SPAN_STOPS, STARTS

__all__ = ["count_occurring"]

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

"""A trie of words, in time and memory linear in their bytes.

A word that leaves the trie appends its remaining nodes as a chain. So nearly every node has one child, which is the
next node, and takes two bytes. The few other edges, at most one for each word, are in a hash table keyed by a secret
seed, so that no text can collide on purpose; the edges of the root are in an array of 256.
"""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import mix

# A node: flags | byte of the edge to the next node.
LABEL = 0xFF
CHAINED = 1 << 8
"""The next node is its child."""
BRANCHING = 1 << 9
"""The node has other children, in the hash table."""

# Columns of the hash table of edges.
KEY, TARGET = 0, 1
NO_KEY = 0
LABEL_BITS = np.uint64(8)


@inlined
def slots_of_edges(words):
    """Return the slots that a trie of so many words needs."""
    slots = 4
    while slots < 2 * words:
        slots *= 2
    return slots


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
def insert(text, pos, stop, used, nodes, root, edges, seed):
    """Insert the string `text[pos:stop]`: (its node, new number of nodes)."""
    node = np.int64(0)
    while pos < stop:
        child = child_of(nodes, root, edges, node, np.int64(text[pos]), seed)
        if child == 0:
            used = add_chain(text, pos, stop, node, used, nodes, root, edges, seed)
            return used - 1, used
        node = child
        pos += 1
    return node, used

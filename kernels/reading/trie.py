"""A trie of words, in time and memory linear in their bytes.

A word that leaves the trie appends its remaining nodes as a chain. So nearly every node has one child, which is the
next node, and takes two bytes. The few other edges, at most one for each word, are in a hash table keyed by a secret
seed, so that no text can collide on purpose; the edges of the root are in an array of 256.

Two words are akin (docs/rules.md, Gates) if they share a beginning of at least three characters and at least half of
either. So the trie of some words is marked by others at such beginnings of theirs, and each of the first looks for
marks at such beginnings of its own: no word is compared with another.
"""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import mix
from ..text.strings import width
from ..text.unicode import is_letter

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


# Flags of nodes, of words that were marked: see above.
WHOLE = 1 << 11
"""The node is the end of one."""
BEGINNING = 1 << 12
"""The node is the end of a beginning of one that is long enough to be akin."""
COUNTED = 1 << 13
"""The word that ends here has been counted."""

MIN_BEGINNING = 3


@inlined
def begins_character(byte):
    return byte & 0xC0 != 0x80


@helper
def count_characters(text, start, stop):
    characters = np.int64(0)
    for k in range(start, stop):
        characters += begins_character(text[k])
    return characters


@helper
def has_letter(text, start, stop, tables):
    """Return whether the word `text[start:stop]` has a letter."""
    while start < stop:
        if is_letter(text, start, tables):
            return True
        start += width(text[start])
    return False


@helper
def mark_word(text, start, stop, beginnings, nodes, root, edges, seed):
    """Mark the node where the word `text[start:stop]` ends, if there is one, and with `beginnings` those where its
    beginnings end.
    """
    if root[text[start]] == 0:
        return
    size = max(2 * MIN_BEGINNING, count_characters(text, start, stop))
    node = characters = np.int64(0)
    for k in range(start, stop):
        node = child_of(nodes, root, edges, node, np.int64(text[k]), seed)
        if node == 0:
            return
        characters += begins_character(text[k])
        is_last = k + 1 == stop
        if is_last:
            nodes[node] |= WHOLE
        if beginnings and 2 * characters >= size and (is_last or begins_character(text[k + 1])):
            nodes[node] |= BEGINNING


@helper
def find_marks(text, start, stop, nodes, root, edges, seed):
    """Look for marks of the inserted word `text[start:stop]`: (its node, whether a word akin to it was marked)."""
    size = count_characters(text, start, stop)
    node = characters = np.int64(0)
    is_akin = False
    for k in range(start, stop):
        node = child_of(nodes, root, edges, node, np.int64(text[k]), seed)
        characters += begins_character(text[k])
        is_akin |= nodes[node] & BEGINNING != 0 and 2 * characters >= size
    return node, is_akin

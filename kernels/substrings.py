"""Which of several words occur in texts: Aho and Corasick's automaton (1975), linear in texts and words together.

A word that leaves the trie makes the nodes that it still needs one after the other: a chain. So nearly every node has
one child, which is the next node, and the whole of it is one machine word: a step through a text reads one. The few
other edges, at most one a word, stand in a hash table under a secret seed, so that no text can be made to collide;
those of the root in a row of 256.
"""

from __future__ import annotations

import numpy as np

from .hashing import mix
from .jit import allocating, helper, inlined
from .workspace import CANON, LENGTHS, MISSING, NORM, SPAN_STARTS, SPAN_STOPS, STARTS

__all__ = ["count_occurring"]

# A node: link << 32 | flags | byte of the edge to the next node. Its link is its longest proper suffix that is a node.
LABEL = 0xFF
CHAINED = 1 << 8
"""The next node is its child."""
BRANCHING = 1 << 9
"""It has other children, in the hash table."""
SEEN = 1 << 10
"""It, or a node that has it as a suffix, has been reached: then so are all its suffixes."""
LINK = 32

# A chain: the node it leaves from, the byte it leaves by, its first node, the node behind its last, and its depth.
ORIGIN, BYTE, FIRST, STOP, DEPTH = range(5)

NO_KEY = np.uint64(0)
LABEL_BITS = np.uint64(8)
ONE = np.uint64(1)


@inlined
def edge_slot(keys, node, byte, seed):
    """Slot of the edge from `node` by `byte`: the one that holds it, or the free one where it belongs."""
    key = (np.uint64(node) << LABEL_BITS | np.uint64(byte)) + ONE
    mask = np.int64(keys.shape[0] - 1)
    slot = np.int64(mix(key ^ seed) >> LABEL_BITS) & mask
    while keys[slot] != NO_KEY and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@inlined
def child_of(nodes, root, keys, targets, node, byte, seed):
    """The node that the edge from `node` by `byte` leads to; 0, the root, where there is none."""
    if node == 0:
        return root[byte]
    held = nodes[node]
    if held & (CHAINED | LABEL) == CHAINED | byte:
        return node + 1
    if held & BRANCHING:
        slot = edge_slot(keys, node, byte, seed)
        if keys[slot] != NO_KEY:
            return targets[slot]
    return np.int64(0)


@inlined
def advance(nodes, root, keys, targets, node, byte, seed):
    """Where the longest suffix of `node` that can go on by `byte` leads; the root if none can."""
    while node != 0:
        child = child_of(nodes, root, keys, targets, node, byte, seed)
        if child != 0:
            return child
        node = nodes[node] >> LINK
    return root[byte]


@helper
def add_chain(text, at, stop, origin, used, nodes, root, keys, targets, seed):
    """Make nodes for `text[at:stop]`, which leaves the trie at `origin`; returns the new number of nodes."""
    byte = np.int64(text[at])
    if origin == 0:
        root[byte] = used
    elif used == origin + 1:
        nodes[origin] |= CHAINED | byte
    else:
        slot = edge_slot(keys, origin, byte, seed)
        keys[slot] = (np.uint64(origin) << LABEL_BITS | np.uint64(byte)) + ONE
        targets[slot] = used
        nodes[origin] |= BRANCHING
    for i in range(at + 1, stop):
        nodes[used] = CHAINED | np.int64(text[i])
        used += 1
    nodes[used] = 0
    return used + 1


@helper
def build_trie(text, ints, first, last, nodes, root, keys, targets, chains, ends, seed):
    """Insert the strings MISSING[first:last] of `text`; `ends[k]` is the node of string `first + k`. Returns the number
    of chains.
    """
    nodes[0] = 0
    used = np.int64(1)
    count = 0
    for k in range(first, last):
        word = ints[MISSING, k]
        start, length = ints[STARTS, word], ints[LENGTHS, word]
        node = np.int64(0)
        i = start
        while i < start + length:
            child = child_of(nodes, root, keys, targets, node, np.int64(text[i]), seed)
            if child == 0:
                break
            node = child
            i += 1
        if i < start + length:
            chains[ORIGIN, count], chains[BYTE, count], chains[FIRST, count] = node, text[i], used
            used = add_chain(text, i, start + length, node, used, nodes, root, keys, targets, seed)
            chains[STOP, count], chains[DEPTH, count] = used, i - start + 1
            count += 1
            node = used - 1
        ends[k - first] = node
    return count


@allocating
def by_depth(chains, count):
    """The chains in order of their depth, by counting."""
    deepest = 0
    for chain in range(count):
        deepest = max(deepest, chains[DEPTH, chain])
    places = np.zeros(deepest + 2, np.int64)
    for chain in range(count):
        places[chains[DEPTH, chain] + 1] += 1
    for depth in range(deepest + 1):
        places[depth + 1] += places[depth]
    order = np.empty(count, np.int64)
    for chain in range(count):
        order[places[chains[DEPTH, chain]]] = chain
        places[chains[DEPTH, chain]] += 1
    return order


@helper
def link(nodes, root, keys, targets, chains, order, seed):
    """Set the links of all nodes, one depth after the other, each chain that is so deep by one node.

    `order` is used up: its beginning lists the chains that go on.
    """
    begun = going = 0
    depth = np.int64(1)
    while going or begun < order.shape[0]:
        while begun < order.shape[0] and chains[DEPTH, order[begun]] == depth:
            order[going] = order[begun]
            begun += 1
            going += 1
        left = 0
        for k in range(going):
            chain = order[k]
            origin, byte, node = chains[ORIGIN, chain], chains[BYTE, chain], chains[FIRST, chain]
            if origin != 0:
                nodes[node] |= advance(nodes, root, keys, targets, nodes[origin] >> LINK, byte, seed) << LINK
            if node + 1 < chains[STOP, chain]:
                chains[ORIGIN, chain], chains[BYTE, chain], chains[FIRST, chain] = node, nodes[node] & LABEL, node + 1
                order[left] = chain
                left += 1
        going = left
        depth += 1


@helper
def mark_nodes(texts, ints, count, nodes, root, keys, targets, seed):
    """Run the automaton over the first `count` words of the prose, and mark every node that it reaches."""
    for k in range(count):
        node = np.int64(0)
        for i in range(ints[SPAN_STARTS, k], ints[SPAN_STOPS, k]):
            node = advance(nodes, root, keys, targets, node, np.int64(texts[NORM, i]), seed)
            suffix = node
            while suffix != 0 and not nodes[suffix] & SEEN:
                nodes[suffix] |= SEEN
                suffix = nodes[suffix] >> LINK


@allocating
def count_occurring(texts, ints, count, first, last, seed):
    """How many of the strings MISSING[first:last] occur inside one of the first `count` words of the prose.

    texts, ints: the arrays of the workspace. Time and memory are linear in the bytes of both.
    """
    size = np.int64(1)
    for k in range(first, last):
        size += ints[LENGTHS, ints[MISSING, k]]
    slots = 4
    while slots < 2 * (last - first):
        slots *= 2
    nodes = np.empty(size, np.int64)
    root = np.zeros(256, np.int64)
    keys = np.zeros(slots, np.uint64)
    targets = np.empty(slots, np.int64)
    chains = np.empty((5, last - first), np.int64)
    ends = np.empty(last - first, np.int64)
    made = build_trie(texts[CANON], ints, first, last, nodes, root, keys, targets, chains, ends, seed)
    link(nodes, root, keys, targets, chains, by_depth(chains, made), seed)
    mark_nodes(texts, ints, count, nodes, root, keys, targets, seed)
    found = 0
    for k in range(last - first):
        found += nodes[ends[k]] & SEEN != 0
    return found

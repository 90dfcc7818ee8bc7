"""Interning: maps equal words of one text, and equal sequences of words, to equal small integers.

Such an integer is called a string. A sequence is interned as a pair: the string of all words but the last, and the
last word. So its words are compared once, and the sequence costs one look-up for each further word.
"""

from __future__ import annotations

import numpy as np

from ..compiler import helper, inlined
from ..memory import (
    CANON,
    CANON_USED,
    COUNTS,
    EPOCH,
    HASHES,
    HEADS,
    IDS_USED,
    LENGTHS,
    MASK,
    OBJECTS_USED,
    SLOTS,
    STARTS,
    STRINGS_USED,
    WORD_STAMPS,
    hash_word,
    head_of,
    load8,
    low_bytes,
    mix,
    read_only,
    store8,
    tail_of,
)

EPOCH_SHIFT = 32
EPOCH_LIMIT = 1 << 31
STRING_MASK = 0xFFFFFFFF
FIRST_SLOTS = 256
PAIR = -1
"""Length of a string that is a pair; its head is the pair."""
NONE, ONE = np.uint64(0), np.uint64(1)


@helper
def reset(workspace):
    """Remove all strings and steps. Slots carry the epoch that wrote them, so they need not be cleared."""
    ints = workspace.ints
    ints[COUNTS, STRINGS_USED] = 0
    ints[COUNTS, CANON_USED] = 0
    ints[COUNTS, IDS_USED] = 0
    ints[COUNTS, OBJECTS_USED] = 0
    ints[COUNTS, MASK] = FIRST_SLOTS - 1
    next_epoch(ints)


@helper
def next_epoch(ints):
    """Free every slot."""
    ints[COUNTS, EPOCH] += 1
    if ints[COUNTS, EPOCH] == EPOCH_LIMIT:
        ints[SLOTS, :] = 0
        ints[COUNTS, EPOCH] = 1


@helper
def rehash(ints):
    """Rehash the strings into four times as many slots, or twice as many at the end of the row: a usual text stays in
    a few cache lines, and a long one is rehashed a few times.
    """
    mask = 4 * ints[COUNTS, MASK] + 3
    if mask >= ints.shape[1]:
        mask >>= 1
    ints[COUNTS, MASK] = mask
    next_epoch(ints)
    epoch = ints[COUNTS, EPOCH]
    for string in range(ints[COUNTS, STRINGS_USED]):
        slot = ints[HASHES, string] & mask
        while ints[SLOTS, slot] >> EPOCH_SHIFT == epoch:
            slot = (slot + 1) & mask
        ints[SLOTS, slot] = epoch << EPOCH_SHIFT | string


@helper
def same_bytes(first, pos, second, begin, length):
    """Return whether `first[pos:pos + length]` and `second[begin:begin + length]` are equal; reads up to eight bytes
    past both.
    """
    k = 0
    while length - k > 8:
        if load8(first, pos + k) != load8(second, begin + k):
            return False
        k += 8
    return low_bytes(load8(first, pos + k) ^ load8(second, begin + k), length - k) == np.uint64(0)


@inlined
def same_rest(canon, pos, text, start, length, tail):
    """Return whether the words at `canon[pos:]` and `text[start:]`, of equal lengths and heads, are equal.

    tail: of the word in `text`.
    """
    if length <= 8:
        return True
    if load8(canon, pos + length - 8) != tail:
        return False
    return length <= 16 or same_bytes(read_only(canon), pos + 8, text, start + 8, length - 16)


@inlined
def probe(workspace, text, start, length, head, tail, digest):
    """Return the slot that holds the word `text[start:start + length]`, or the pair `head`, or the free slot for it.
    `head` and `tail` of a word are its first and last eight bytes.
    """
    ints = workspace.ints
    mask = ints[COUNTS, MASK]
    epoch = ints[COUNTS, EPOCH]
    slot = digest & mask
    while True:
        entry = ints[SLOTS, slot]
        if entry >> EPOCH_SHIFT != epoch:
            return slot
        string = entry & STRING_MASK
        if (
            ints[HEADS, string] == head
            and ints[LENGTHS, string] == length
            and same_rest(workspace.bytes[CANON], ints[STARTS, string], text, start, length, tail)
        ):
            return slot
        slot = (slot + 1) & mask


@inlined
def add_string(workspace, slot, start, length, head, digest):
    """Add a new string in the free slot; returns it."""
    ints = workspace.ints
    string = ints[COUNTS, STRINGS_USED]
    ints[STARTS, string] = start
    ints[LENGTHS, string] = length
    ints[HEADS, string] = head
    ints[HASHES, string] = digest
    ints[WORD_STAMPS, string] = 0
    ints[SLOTS, slot] = ints[COUNTS, EPOCH] << EPOCH_SHIFT | string
    ints[COUNTS, STRINGS_USED] = string + 1
    if 2 * string > ints[COUNTS, MASK]:
        rehash(ints)
    return string


@inlined
def copy_word(text, start, length, canon, begin):
    """Copy `text[start:start + length]` to `canon[begin:]`; reads and writes up to 16 bytes past it."""
    store8(canon, begin, load8(text, start))
    store8(canon, begin + 8, load8(text, start + 8))
    for k in range(16, length, 8):
        store8(canon, begin + k, load8(text, start + k))


@inlined
def intern(workspace, text, start, length):
    """Return the string of the word `text[start:start + length]`; a new word is copied to CANON."""
    ints = workspace.ints
    head = head_of(text, start, length)
    tail = tail_of(text, start, length)
    digest = hash_word(text, start, length, head, tail, workspace.seed)
    slot = probe(workspace, text, start, length, np.int64(head), tail, digest)
    entry = ints[SLOTS, slot]
    if entry >> EPOCH_SHIFT == ints[COUNTS, EPOCH]:
        return entry & STRING_MASK
    begin = ints[COUNTS, CANON_USED]
    copy_word(text, start, length, workspace.bytes[CANON], begin)
    ints[COUNTS, CANON_USED] = begin + length
    return add_string(workspace, slot, begin, length, np.int64(head), digest)


@inlined
def pair_of(first, second):
    """Return the head of the pair of two strings."""
    return first << 32 | second


@inlined
def hash_pair(head, seed):
    """Return the hash of a pair, 63 bits as an int64."""
    return np.int64(mix(np.uint64(head) ^ seed) >> ONE)


@inlined
def intern_pair(workspace, first, second):
    """Return the string of the words of `first` followed by the word `second`."""
    ints = workspace.ints
    head = pair_of(first, second)
    digest = hash_pair(head, workspace.seed)
    slot = probe(workspace, workspace.bytes[CANON], np.int64(0), np.int64(PAIR), head, NONE, digest)
    entry = ints[SLOTS, slot]
    if entry >> EPOCH_SHIFT == ints[COUNTS, EPOCH]:
        return entry & STRING_MASK
    return add_string(workspace, slot, np.int64(0), np.int64(PAIR), head, digest)

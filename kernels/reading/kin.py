"""Words that are akin to others (docs/rules.md, Gates), in time and memory linear in the bytes of all.

Two words are akin if they share a beginning of at least three characters and at least half of either. Naive comparison
serves the few words of usual steps; when it exceeds a fixed number of comparisons for each byte, a trie takes over: the
trie of the words that are sought is marked by the others at such beginnings of theirs, and each word looks for marks at
such beginnings of its own. So no word is compared with another.
"""

from __future__ import annotations

import numpy as np

from ..compiler import allocating, helper, inlined
from ..memory import KIN, OTHER_HEADS, SOUGHT_STARTS, SOUGHT_STOPS, head_of
from ..text.strings import width
from ..text.unicode import is_letter
from .trie import child_of, insert, slots_of_edges

REPEATED, NO_KIN, AKIN, SAME = range(4)
"""Degrees of kinship; a word with NO_KIN that has occurred before may be REPEATED."""

MIN_BEGINNING, HEAD = 3, 8

# Flags of nodes, of words that were marked: see above.
WHOLE = 1 << 11
"""The node is the end of one."""
BEGINNING = 1 << 12
"""The node is the end of a beginning of one that is long enough to be akin."""
VISITED = 1 << 13
"""The node is the end of a word that has looked for marks."""


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
def kinship(text, start, stop, other, begin, end):
    """Return SAME, AKIN or NO_KIN for the words `text[start:stop]` and `other[begin:end]`."""
    common = np.int64(0)
    while start + common < stop and begin + common < end and text[start + common] == other[begin + common]:
        common += 1
    rest, other_rest = start + common, begin + common
    if rest == stop and other_rest == end:
        return SAME
    characters = count_characters(text, start, rest)
    if (rest < stop and not begins_character(text[rest])) or (
        other_rest < end and not begins_character(other[other_rest])
    ):
        characters -= 1  # they share only the beginning of its bytes
    longer = max(count_characters(text, start, stop), count_characters(other, begin, end))
    return AKIN if characters >= MIN_BEGINNING and 2 * characters >= longer else NO_KIN


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


@allocating
def find_kin_by_trie(workspace, tables, text_row, count, other_row, others, other_count, need_letters):
    """Do what `find_kin` does."""
    ints, seed = workspace.ints, workspace.seed
    text, other = workspace.bytes[text_row], workspace.bytes[other_row]
    size = np.int64(1)
    for k in range(count):
        size += ints[SOUGHT_STOPS, k] - ints[SOUGHT_STARTS, k]
    nodes = np.zeros(size, np.uint16)
    root = np.zeros(256, np.int64)
    edges = np.zeros((slots_of_edges(count), 2), np.int64)
    used = np.int64(1)
    for k in range(count):
        _, used = insert(text, ints[SOUGHT_STARTS, k], ints[SOUGHT_STOPS, k], used, nodes, root, edges, seed)
    for k in range(other_count):
        begin, end = ints[others, k], ints[others + 1, k]
        beginnings = not need_letters or has_letter(other, begin, end, tables)
        mark_word(other, begin, end, beginnings, nodes, root, edges, seed)
    for k in range(count):
        node, is_akin = find_marks(text, ints[SOUGHT_STARTS, k], ints[SOUGHT_STOPS, k], nodes, root, edges, seed)
        degree = SAME if nodes[node] & WHOLE else AKIN if is_akin else NO_KIN
        ints[KIN, k] = REPEATED if degree == NO_KIN and nodes[node] & VISITED else degree
        nodes[node] |= VISITED


COMPARISONS_PER_BYTE, MAX_COMPARISONS = 4, 1 << 12
"""Comparisons for each byte, and in total, that naive comparison may spend before the trie takes over."""


FIRST_BYTES = np.int64((1 << 8 * MIN_BEGINNING) - 1)
"""The bytes of a word's head that an akin word has, too."""


@helper
def find_kin(workspace, tables, text_row, count, other_row, others, other_count, need_letters):
    """Write to KIN for each of the first `count` spans in SOUGHT_STARTS and SOUGHT_STOPS, words in `bytes[text_row]`,
    whether one of the first `other_count` spans in the rows `others` and `others + 1`, words in `bytes[other_row]`, is
    the SAME or AKIN; with `need_letters`, words without a letter are akin to none. Returns whether all with NO_KIN are
    distinct: the others are REPEATED.
    """
    ints = workspace.ints
    text, other = workspace.bytes[text_row], workspace.bytes[other_row]
    budget = np.int64(0)
    for j in range(other_count):
        begin, end = ints[others, j], ints[others + 1, j]
        ints[OTHER_HEADS, j] = np.int64(head_of(other, begin, end - begin))
        budget += end - begin
    for k in range(count):
        budget += ints[SOUGHT_STOPS, k] - ints[SOUGHT_STARTS, k]
    budget = min(COMPARISONS_PER_BYTE * budget, MAX_COMPARISONS)  # type: ignore[arg-type]
    for k in range(count):
        start, stop = ints[SOUGHT_STARTS, k], ints[SOUGHT_STOPS, k]
        head, kin = np.int64(head_of(text, start, stop - start)), NO_KIN
        budget -= other_count
        j = 0
        while j < other_count and kin != SAME and budget >= 0:
            difference = ints[OTHER_HEADS, j] ^ head
            if difference & FIRST_BYTES == 0:
                begin, end = ints[others, j], ints[others + 1, j]
                if difference == 0 and end - begin == stop - start and stop - start <= HEAD:
                    kin = SAME
                    break
                budget -= stop - start + end - begin
                degree = kinship(text, start, stop, other, begin, end)
                if degree == SAME or not need_letters or has_letter(other, begin, end, tables):
                    kin = max(kin, degree)
            j += 1
        if budget < 0:
            find_kin_by_trie(workspace, tables, text_row, count, other_row, others, other_count, need_letters)
            return True
        ints[KIN, k] = kin
    return False

"""The memory that one thread needs to read texts: allocated once, reused for every row.

It is two arrays with named rows, not one array a purpose, because every array that a compiled function receives costs
it seven machine words of arguments. Sizes follow from the longest text: normalisation writes at most 11 bytes for one
(U+FDFA: 3 bytes become 33), what is written again behind it is less than that, and 3 bytes give at most 4 words and
as many sequences of words.
Pages that no text reaches are never touched, so the worst case costs address space, not memory.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import numpy as np

from .sparse import sparse

__all__ = ["SEED", "STEP_ROWS", "Workspace", "allocate_workspace"]

SEED = np.uint64(secrets.randbits(64))
"""Key of this process's hashes."""

# Rows of `bytes`.
TEXT = 0  # decoded JSON strings of one step
NORM = 1  # one normalised text
CANON = 2  # the distinct words of the key steps

# Rows of `ints`. Steps: the action's string, where the words of action, objects and parameters begin in IDS, where they
# end, and the range of the objects in OBJECTS.
STEP_ROWS = 7
ACTION, WORDS, OBJECT_WORDS, PARAMETER_WORDS, WORD_STOP, OBJECT_START, OBJECT_STOP = range(STEP_ROWS)
# Distinct strings: where words stand in CANON, their lengths or PAIR, their first eight bytes or the pair, their
# hashes, and the last step in which they were seen.
STARTS, LENGTHS, HEADS, HASHES, WORD_STAMPS = range(7, 12)
# Open addressing of the strings: epoch << 32 | string.
SLOTS = 12
# Strings, in order of appearance: words of key steps, and their objects.
IDS, OBJECTS = range(13, 15)
# Spans in NORM of the words of the text at hand, and the words of the key step that are not among them.
SPAN_STARTS, SPAN_STOPS, MISSING = range(15, 18)
# Where a word of the prose at hand may be found, by hash: stamp << 32 | word.
PROSE_SLOTS = 18
# Spans in TEXT of the phrases of the step at hand.
PHRASE_STARTS, PHRASE_STOPS = range(19, 21)
# Code points of one cluster.
CODES = 21
# The response's strings as the reference numbers them; anchors; the last set in which a string was seen; scratch.
MAPPED, PARTNERS, STAMPS, FIRST, FOLLOWING = range(22, 27)
# What is in use, field by field.
COUNTS = 27
ROWS = 28

# Fields of the row COUNTS.
STRINGS_USED, CANON_USED, IDS_USED, OBJECTS_USED, EPOCH, MASK = range(6)
# Phrases of the step at hand: the action is the first of those that count, then come its objects and its parameters.
PHRASES_USED, ACTION_PHRASE, FIRST_OBJECT, FIRST_PARAMETER = range(6, 10)
# The last stamps that were given out: of sets, and of proses.
STAMP, PROSE_STAMP = range(10, 12)


MIN_PROSE_SLOTS = 1 << 10
"""Places of the row PROSE_SLOTS that a usual step uses, with its some twenty words."""


class Workspace(NamedTuple):
    """Arrays that kernels write. `seed` keys the hashes."""

    bytes: np.ndarray  # uint8 (3, n)
    ints: np.ndarray  # int64 (28, n)
    seed: np.uint64


def allocate_workspace(max_bytes: int, widest_reference: int = 0) -> Workspace:
    """A workspace for texts of up to `max_bytes` bytes; widest_reference: see `References.widest`, 0 for reading
    references.
    """
    size = max_bytes + 64
    strings = 3 * size + widest_reference + 64
    slots = 1 << max(6 * size - 1, MIN_PROSE_SLOTS).bit_length()
    width = max(strings, slots) + 72  # rows must not be a power of two apart: they would share cache sets
    return Workspace(sparse((3, 20 * size + 72), np.uint8), sparse((ROWS, width), np.int64), SEED)

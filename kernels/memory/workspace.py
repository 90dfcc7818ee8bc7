"""Working memory of one thread that reads texts, allocated once and reused for every row.

A workspace is two arrays with named rows, because every array argument costs a compiled function seven machine words.
Sizes follow from the longest text: normalisation writes at most 11 bytes for one (U+FDFA: 3 bytes become 33), the
rewritten words after it take less than that, and 3 bytes give at most 4 words and as many sequences of words. Pages
that no text reaches are never touched, so the worst case costs address space, not memory. NumPy asks for huge pages, so
touching one byte of its large arrays commits two megabytes: `sparse` does not.
"""

from __future__ import annotations

import math
import mmap
import secrets
from typing import NamedTuple

import numpy as np

__all__ = ["SEED", "STEP_ROWS", "Workspace", "allocate_workspace", "sparse"]

SEED = np.uint64(secrets.randbits(64))
"""Key of this process's hashes."""

# Rows of `bytes`.
TEXT = 0  # decoded JSON strings of one step
NORM = 1  # one normalised text
CANON = 2  # the distinct words of the key steps

# Rows of `ints`. Steps: the action's string; the starts in IDS of the words of action, objects and parameters, and
# their end; the range of the objects in OBJECTS.
STEP_ROWS = 7
ACTION, WORDS, OBJECT_WORDS, PARAMETER_WORDS, WORD_STOP, OBJECT_START, OBJECT_STOP = range(STEP_ROWS)
# Distinct strings: starts of words in CANON, their lengths or PAIR, their first eight bytes or the pair, their hashes,
# and the last step in which they occurred.
STARTS, LENGTHS, HEADS, HASHES, WORD_STAMPS = range(7, 12)
# Open addressing of the strings: epoch << 32 | string.
SLOTS = 12
# Strings in order of appearance: words of key steps, and their objects.
IDS, OBJECTS = range(13, 15)
# Spans in NORM of the words of the current text, and the words of the key step that are not among them.
SPAN_STARTS, SPAN_STOPS, MISSING = range(15, 18)
# Hash table of the words of the current prose: stamp << 32 | word.
PROSE_SLOTS = 18
# Spans in TEXT of the phrases of the current step.
PHRASE_STARTS, PHRASE_STOPS = range(19, 21)
# Code points of one cluster.
CODES = 21
# The response's strings as numbered by the reference; anchors; the last set that contained a string; scratch.
MAPPED, PARTNERS, STAMPS, FIRST, FOLLOWING = range(22, 27)
# Counters, field by field.
COUNTS = 27
ROWS = 28

# Fields of the row COUNTS.
STRINGS_USED, CANON_USED, IDS_USED, OBJECTS_USED, EPOCH, MASK = range(6)
# Phrases of the current step: those that count begin with the action, followed by the objects and the parameters.
PHRASES_USED, ACTION_PHRASE, FIRST_OBJECT, FIRST_PARAMETER = range(6, 10)
# The last stamps in use: of sets, and of prose texts.
STAMP, PROSE_STAMP = range(10, 12)


MIN_PROSE_SLOTS = 1 << 10
"""Slots of the row PROSE_SLOTS that a usual step of about twenty words uses."""


class Workspace(NamedTuple):
    """Arrays that kernels write. `seed` keys the hashes."""

    bytes: np.ndarray  # uint8 (3, n)
    ints: np.ndarray  # int64 (28, n)
    seed: np.uint64


def allocate_workspace(max_bytes: int, widest_reference: int = 0) -> Workspace:
    """Allocate a workspace for texts of up to `max_bytes` bytes and references of up to `widest_reference`
    (`References.widest`; 0 for reading references).
    """
    size = max_bytes + 64
    strings = 3 * size + widest_reference + 64
    slots = 1 << max(6 * size - 1, MIN_PROSE_SLOTS).bit_length()
    width = max(strings, slots) + 72  # rows must not be a power of two apart: they would share cache sets
    return Workspace(sparse((3, 20 * size + 72), np.uint8), sparse((ROWS, width), np.int64), SEED)


SMALL = 1 << 22

SPARSE = hasattr(mmap, "MADV_NOHUGEPAGE")
"""True on Linux; elsewhere the arrays are NumPy's own."""

FLAGS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Private, because Python's default is shared with forked children. Not reserved, because a worst case is many times
what a text uses; Python before 3.13 does not name this flag of Linux."""


def sparse(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return a zeroed, writable array of `shape`; raises MemoryError."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < SMALL or not SPARSE:
        return np.zeros(shape, dtype)
    try:
        block = mmap.mmap(-1, size, flags=FLAGS)
    except OSError as error:
        raise MemoryError(f"cannot map {size} bytes: {error.strerror}") from error
    block.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(block, dtype).reshape(shape)

"""References of recent small requests, by their bytes: a group's single requests name the same one over and over.

Each has a place of its own among the rows of `References`, chosen by its hash; what stood there before is lost. A place
is a row and the empty one behind it, so that every row ends where it ends, whatever its neighbour holds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler.jit import inlined
from ..memory.hashing import hash_word, head_of, tail_of
from ..memory.load_store import load8, read_only, store8
from ..text.interning import same_bytes
from .references import CANON_AT, ID_AT, OBJECT_AT, SLOT_AT, STEP_AT, STRING_AT, References, allocate

__all__ = [
    "FIRST_FREE_ROW",
    "ReferenceSlots",
    "allocate_with_slots",
    "empty_slots",
    "fill_slot",
    "holds_reference",
    "invalidate",
    "slot_row",
]

SLOT_COUNT = 64
MAX_SLOT_BYTES = 8192
"""Bytes of the longest reference that is kept."""

FIRST_FREE_ROW = 2 * SLOT_COUNT
"""Rows from here on are nobody's place."""

EMPTY = -1


class ReferenceSlots(NamedTuple):
    """What was read into each place."""

    texts: np.ndarray  # uint8 (SLOT_COUNT, MAX_SLOT_BYTES + 8)
    lengths: np.ndarray  # int64 (SLOT_COUNT,), EMPTY where nothing is kept
    limits: np.ndarray  # int64 (SLOT_COUNT,): the limit of steps that it was read under


def empty_slots() -> ReferenceSlots:
    """Empty places."""
    texts = np.zeros((SLOT_COUNT, MAX_SLOT_BYTES + 8), np.uint8)
    return ReferenceSlots(texts, np.full(SLOT_COUNT, EMPTY, np.int64), np.zeros(SLOT_COUNT, np.int64))


def allocate_with_slots(max_bytes: int, rows: int) -> References:
    """Room for the kept references, and behind them for `rows` others of `max_bytes` bytes together."""
    each = MAX_SLOT_BYTES + 128
    room = allocate(SLOT_COUNT * (each + 128) + max_bytes, FIRST_FREE_ROW + rows)
    strides = np.zeros(6, np.int64)
    strides[[STEP_AT, ID_AT, OBJECT_AT]] = each // 8 + 2, 2 * each, each
    strides[[STRING_AT, SLOT_AT, CANON_AT]] = 3 * each, 12 * each, 16 * each  # as `allocate` has them
    room.ranges[: FIRST_FREE_ROW + 1 : 2] = np.arange(SLOT_COUNT + 1)[:, None] * strides
    return room


@inlined
def slot_row(text, start, length, seed):
    """The row where the reference `text[start:start + length]` is kept; FIRST_FREE_ROW where it is too long."""
    if length == 0 or length > MAX_SLOT_BYTES:
        return np.int64(FIRST_FREE_ROW)
    head, tail = head_of(text, start, length), tail_of(text, start, length)
    return 2 * (hash_word(text, start, length, head, tail, seed) & (SLOT_COUNT - 1))


@inlined
def holds_reference(slots, row, text, start, length, max_steps):
    """Whether the row `slot_row` the reference holds it, read under this limit of steps."""
    if row == FIRST_FREE_ROW:
        return False
    slot = row >> 1
    if slots.lengths[slot] != length or slots.limits[slot] != max_steps:
        return False
    return same_bytes(read_only(slots.texts[slot]), 0, text, start, length)


@inlined
def invalidate(slots, row):
    """Something else is about to be read into this row."""
    if row < FIRST_FREE_ROW:
        slots.lengths[row >> 1] = EMPTY


@inlined
def fill_slot(slots, row, text, start, length, max_steps):
    """Now this row holds the reference `text[start:start + length]`."""
    if row < FIRST_FREE_ROW:
        slot = row >> 1
        for k in range(0, length, 8):
            store8(slots.texts[slot], k, load8(text, start + k))
        slots.lengths[slot] = length
        slots.limits[slot] = max_steps

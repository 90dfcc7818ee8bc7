"""Cache of the references of recent fast-path requests: the single requests of a group repeat the same reference.

The hash of a reference selects one slot, which it overwrites. A slot is a row of `References` and the empty row after
it, so that the end of a row does not depend on the next slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiler.jit import inlined
from ..memory.hashing import hash_word, head_of, tail_of
from ..memory.load_store import read_only
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
"""Bytes of the longest reference that is cached."""

FIRST_FREE_ROW = 2 * SLOT_COUNT
"""Rows from here on are not cache slots."""

EMPTY = -1


class ReferenceSlots(NamedTuple):
    """The text that was read into each slot."""

    texts: np.ndarray  # uint8 (SLOT_COUNT, MAX_SLOT_BYTES + 8)
    lengths: np.ndarray  # int64 (SLOT_COUNT,), EMPTY in an empty slot
    limits: np.ndarray  # int64 (SLOT_COUNT,): the limit of steps when it was read


def empty_slots() -> ReferenceSlots:
    texts = np.zeros((SLOT_COUNT, MAX_SLOT_BYTES + 8), np.uint8)
    return ReferenceSlots(texts, np.full(SLOT_COUNT, EMPTY, np.int64), np.zeros(SLOT_COUNT, np.int64))


def allocate_with_slots(max_bytes: int, rows: int) -> References:
    """Allocate columns for the slots and, after them, for `rows` references of `max_bytes` bytes together."""
    each = MAX_SLOT_BYTES + 128
    room = allocate(SLOT_COUNT * (each + 128) + max_bytes, FIRST_FREE_ROW + rows)
    strides = np.zeros(6, np.int64)
    strides[[STEP_AT, ID_AT, OBJECT_AT]] = each // 8 + 2, 2 * each, each
    strides[[STRING_AT, SLOT_AT, CANON_AT]] = 3 * each, 12 * each, 16 * each  # as `allocate` has them
    room.ranges[: FIRST_FREE_ROW + 1 : 2] = np.arange(SLOT_COUNT + 1)[:, None] * strides
    return room


@inlined
def slot_row(text, start, length, seed):
    """Return the row of the cache slot of `text[start:start + length]`, or FIRST_FREE_ROW if it is too long."""
    if length == 0 or length > MAX_SLOT_BYTES:
        return np.int64(FIRST_FREE_ROW)
    head, tail = head_of(text, start, length), tail_of(text, start, length)
    return 2 * (hash_word(text, start, length, head, tail, seed) & (SLOT_COUNT - 1))


@inlined
def holds_reference(slots, row, text, start, length, max_steps):
    """Return whether the row, the reference's `slot_row`, holds it, read with this limit of steps."""
    if row == FIRST_FREE_ROW:
        return False
    slot = row >> 1
    if slots.lengths[slot] != length or slots.limits[slot] != max_steps:
        return False
    return same_bytes(read_only(slots.texts[slot]), 0, text, start, length)


@inlined
def invalidate(slots, row):
    """Invalidate this slot before another reference is read into it."""
    if row < FIRST_FREE_ROW:
        slots.lengths[row >> 1] = EMPTY


def fill_slot(slots: ReferenceSlots, row: int, text: np.ndarray, length: int, max_steps: int) -> None:
    """Record that this row holds the reference `text[:length]`."""
    if row < FIRST_FREE_ROW:
        slot = row >> 1
        slots.texts[slot, :length] = text[:length]
        slots.lengths[slot] = length
        slots.limits[slot] = max_steps

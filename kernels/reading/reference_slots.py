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
from .references import CANON_AT, ID_AT, OBJECT_AT, SLOT_AT, STEP_AT, STRING_AT, References, room_for

__all__ = [
    "FIRST_FREE_ROW",
    "KeptTexts",
    "forget",
    "is_kept",
    "kept_texts",
    "place_of",
    "remember",
    "room_with_places",
]

PLACES = 64
MAX_KEPT = 8192
"""Bytes of the longest reference that is kept."""

FIRST_FREE_ROW = 2 * PLACES
"""Rows from here on are nobody's place."""

EMPTY = -1


class KeptTexts(NamedTuple):
    """What was read into each place."""

    texts: np.ndarray  # uint8 (PLACES, MAX_KEPT + 8)
    lengths: np.ndarray  # int64 (PLACES,), EMPTY where nothing is kept
    limits: np.ndarray  # int64 (PLACES,): the limit of steps that it was read under


def kept_texts() -> KeptTexts:
    """Empty places."""
    texts = np.zeros((PLACES, MAX_KEPT + 8), np.uint8)
    return KeptTexts(texts, np.full(PLACES, EMPTY, np.int64), np.zeros(PLACES, np.int64))


def room_with_places(most_bytes: int, rows: int) -> References:
    """Room for the kept references, and behind them for `rows` others of `most_bytes` bytes together."""
    each = MAX_KEPT + 128
    room = room_for(PLACES * (each + 128) + most_bytes, FIRST_FREE_ROW + rows)
    strides = np.zeros(6, np.int64)
    strides[[STEP_AT, ID_AT, OBJECT_AT]] = each // 8 + 2, 2 * each, each
    strides[[STRING_AT, SLOT_AT, CANON_AT]] = 3 * each, 12 * each, 16 * each  # as `room_for` has them
    room.ranges[: FIRST_FREE_ROW + 1 : 2] = np.arange(PLACES + 1)[:, None] * strides
    return room


@inlined
def place_of(text, start, length, seed):
    """The row where the reference `text[start:start + length]` is kept; FIRST_FREE_ROW where it is too long."""
    if length == 0 or length > MAX_KEPT:
        return np.int64(FIRST_FREE_ROW)
    head, tail = head_of(text, start, length), tail_of(text, start, length)
    return 2 * (hash_word(text, start, length, head, tail, seed) & (PLACES - 1))


@inlined
def is_kept(kept, row, text, start, length, max_steps):
    """Whether the row `place_of` the reference holds it, read under this limit of steps."""
    if row == FIRST_FREE_ROW:
        return False
    place = row >> 1
    if kept.lengths[place] != length or kept.limits[place] != max_steps:
        return False
    return same_bytes(read_only(kept.texts[place]), 0, text, start, length)


@inlined
def forget(kept, row):
    """Something else is about to be read into this row."""
    if row < FIRST_FREE_ROW:
        kept.lengths[row >> 1] = EMPTY


@inlined
def remember(kept, row, text, start, length, max_steps):
    """Now this row holds the reference `text[start:start + length]`."""
    if row < FIRST_FREE_ROW:
        place = row >> 1
        for k in range(0, length, 8):
            store8(kept.texts[place], k, load8(text, start + k))
        kept.lengths[place] = length
        kept.limits[place] = max_steps

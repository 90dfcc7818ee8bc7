"""What a thread reads texts in, kept and grown as needed: fresh memory costs a page fault every 4 KiB."""

from __future__ import annotations

import threading

import numpy as np

from kernels.column import TextColumn
from kernels.references import References, room_for
from kernels.workspace import Workspace, workspace

__all__ = ["borrow_bytes", "borrow_room", "borrow_workspace", "borrow_workspace_for"]

MOST_KEPT_BYTES = 1 << 24

MOST_KEPT_ROOM = 1 << 21
"""Bytes of references for which a thread keeps the room; it takes some five times as much where they use it."""

_local = threading.local()


def borrow_workspace(longest: int, widest_reference: int = 0) -> Workspace:
    """This thread's workspace, with room for texts of so many bytes and references as wide (`References.widest`)."""
    room = getattr(_local, "workspace_room", (-1, -1))
    if longest > room[0] or widest_reference > room[1]:
        _local.workspace_room = (_rounded(max(longest, room[0])), _rounded(max(widest_reference, room[1])))
        _local.workspace = workspace(*_local.workspace_room)
    return _local.workspace


def borrow_workspace_for(texts: TextColumn, most_bytes: int, widest_reference: int) -> Workspace:
    """This thread's workspace, with room for those of the texts that are read: of at most `most_bytes`."""
    lengths = texts.lengths
    readable = lengths[lengths <= most_bytes]
    return borrow_workspace(int(readable.max(initial=0)), widest_reference)


def borrow_bytes(most: int) -> np.ndarray:
    """uint8 (at least `most`,): for text that is read before this thread borrows them again."""
    if most > MOST_KEPT_BYTES:
        return np.empty(most, np.uint8)
    if most > getattr(_local, "bytes_room", -1):
        _local.bytes_room = _rounded(most)
        _local.bytes = np.empty(_local.bytes_room, np.uint8)
    return _local.bytes


def borrow_room(column: TextColumn) -> References:
    """Columns for the references of `column`, to be read from before this thread borrows them again."""
    most = int(column.offsets[-1] - column.offsets[0])
    if most > MOST_KEPT_ROOM:
        return room_for(most, column.rows)
    room = getattr(_local, "reference_room", (-1, -1))
    if most > room[0] or column.rows > room[1]:
        _local.reference_room = (_rounded(max(most, room[0])), _rounded(max(column.rows, room[1])))
        _local.references = room_for(*_local.reference_room)
    return _local.references._replace(ranges=np.zeros((column.rows + 1, 6), np.int64))


def _rounded(size: int) -> int:
    """Next power of two, so that slowly growing texts do not ask for new memory each time."""
    return 1 << max(12, (size - 1).bit_length())

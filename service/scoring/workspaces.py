"""What a thread reads texts in, kept and grown as needed: fresh memory costs a page fault every 4 KiB.

A thread takes note of a size only once it has the memory: kernels do not check bounds, and would write beyond memory
that is smaller than noted. What rare long texts need is not kept: it goes back with the last reference to it.
"""

from __future__ import annotations

import os
import threading

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.memory.workspace import Workspace, allocate_workspace
from ...kernels.reading.references import References, allocate

__all__ = ["borrow_bytes", "borrow_room", "borrow_workspace", "borrow_workspace_for"]

MAX_KEPT_BYTES = 1 << 24

MAX_KEPT_ROOM = 1 << 21
"""Bytes of references for which a thread keeps the room; it takes some five times as much where they use it."""

MAX_KEPT_TEXT = 1 << 18
"""Bytes of the longest text for which a thread keeps its workspace: the default limit of responses and references."""

MAX_KEPT_WIDTH = 1 << 20
"""The same for `References.widest`: no reference of `MAX_KEPT_TEXT` bytes is as wide."""

_local = threading.local()


def borrow_workspace(longest: int, widest_reference: int = 0) -> Workspace:
    """This thread's workspace, with room for texts of so many bytes and references as wide (`References.widest`)."""
    if longest > MAX_KEPT_TEXT or widest_reference > MAX_KEPT_WIDTH:
        return allocate_workspace(longest, widest_reference)
    room = getattr(_local, "workspace_room", (-1, -1))
    if longest > room[0] or widest_reference > room[1]:
        room = (_rounded(max(longest, room[0])), _rounded(max(widest_reference, room[1])))
        _local.workspace, _local.workspace_room = allocate_workspace(*room), room
    return _local.workspace


def borrow_workspace_for(texts: TextColumn, most_bytes: int, widest_reference: int) -> Workspace:
    """This thread's workspace, with room for those of the texts that are read: of at most `most_bytes`."""
    lengths = texts.lengths
    readable = lengths[lengths <= most_bytes]
    return borrow_workspace(int(readable.max(initial=0)), widest_reference)


def borrow_bytes(most: int) -> np.ndarray:
    """uint8 (at least `most`,): for text that is read before this thread borrows them again."""
    if most > MAX_KEPT_BYTES:
        return np.empty(most, np.uint8)
    if most > getattr(_local, "bytes_room", -1):
        room = _rounded(most)
        _local.bytes, _local.bytes_room = np.empty(room, np.uint8), room
    return _local.bytes


def borrow_room(column: TextColumn) -> References:
    """Columns for the references of `column`, to be read from before this thread borrows them again."""
    most = int(column.offsets[-1] - column.offsets[0])
    if most > MAX_KEPT_ROOM:
        return allocate(most, column.rows)
    room = getattr(_local, "reference_room", (-1, -1))
    if most > room[0] or column.rows > room[1]:
        room = (_rounded(max(most, room[0])), _rounded(max(column.rows, room[1])))
        _local.references, _local.reference_room = allocate(*room), room
    return _local.references._replace(ranges=np.zeros((column.rows + 1, 6), np.int64))


def _rounded(size: int) -> int:
    """Next power of two, so that slowly growing texts do not ask for new memory each time."""
    return 1 << max(12, (size - 1).bit_length())


def _forget() -> None:
    """Let a forked child begin without its parent's memory, of which it would copy every page that it writes."""
    global _local
    _local = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

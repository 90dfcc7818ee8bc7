"""The memory that each thread keeps between slices, which are many and short.

A thread records a size only after the allocation: kernels do not check bounds, and would write beyond memory that is
smaller than recorded. Memory for rare long texts is not kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from operator import gt
from typing import TypeVar, cast

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.memory import Workspace, allocate_workspace
from ...kernels.reading.references import References, allocate

Memory = TypeVar("Memory")

MAX_KEPT_BYTES = 1 << 24
MAX_KEPT_ROOM = 1 << 21  # bytes of references whose memory a thread keeps: about five times as much
MAX_KEPT_TEXT = 1 << 18  # the default limit of responses and references
MAX_KEPT_WIDTH = 1 << 20  # no reference of MAX_KEPT_TEXT bytes is as wide


_local = threading.local()
"""This thread's memory by the name of its kind, with the sizes that it suffices for."""


def _borrow(kind: str, allocate: Callable[..., Memory], *sizes: int) -> Memory:
    """Return the memory of this kind, allocated again if it is too small: with each size at least the previous one."""
    memory, room = getattr(_local, kind, (None, (-1,) * len(sizes)))
    if any(map(gt, sizes, room)):
        room = tuple(_rounded(max(pair)) for pair in zip(sizes, room, strict=True))
        memory = allocate(*room)
        setattr(_local, kind, (memory, room))
    return cast(Memory, memory)


def borrow_workspace(longest: int, widest_reference: int = 0) -> Workspace:
    if longest > MAX_KEPT_TEXT or widest_reference > MAX_KEPT_WIDTH:
        return allocate_workspace(longest, widest_reference)
    return _borrow("workspace", allocate_workspace, longest, widest_reference)


def borrow_workspace_for(texts: TextColumn, max_bytes: int, widest_reference: int) -> Workspace:
    lengths = texts.lengths
    readable = lengths[lengths <= max_bytes]
    return borrow_workspace(int(readable.max(initial=0)), widest_reference)


def borrow_bytes(nbytes: int) -> np.ndarray:
    """Return at least `nbytes` bytes, uint8, valid until this thread borrows bytes again."""
    if nbytes > MAX_KEPT_BYTES:
        return np.empty(nbytes, np.uint8)
    return _borrow("bytes", partial(np.empty, dtype=np.uint8), nbytes)


def borrow_room(column: TextColumn) -> References:
    """Return memory for the references of `column`, valid until this thread borrows it again."""
    nbytes = int(column.offsets[-1] - column.offsets[0])
    if nbytes > MAX_KEPT_ROOM:
        return allocate(nbytes, column.rows)
    references = _borrow("references", allocate, nbytes, column.rows)
    return references._replace(ranges=np.zeros((column.rows + 1, 6), np.int64))


def _rounded(size: int) -> int:
    return 1 << max(12, (size - 1).bit_length())


def _forget() -> None:
    """Release the parent's memory in a forked child, which would copy every page that it writes."""
    global _local
    _local = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

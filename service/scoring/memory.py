"""The memory of batches, which is kept between them: its pages would be as many page faults each time.

Memory for rare long texts is not kept. A forked child begins without any: it would copy every page that it writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import ge

from ...kernels.batch import BatchMemory, allocate_memory

MAX_KEPT = (1 << 24, 1 << 16, 1 << 16, 1 << 21, 1 << 18, 1 << 18)
"""The largest sizes, as `allocate_memory` takes them, of memory that is kept: the default limit of responses and
references, and shares of usual size."""
MAX_KEPT_MEMORIES = 8

_kept: list[tuple[tuple[int, ...], BatchMemory]] = []
"""Memory that no batch uses, with its threads and sizes."""
_running: list[None] = []
"""An element for each batch that is being scored."""


@contextmanager
def borrowed_memory(threads: int, sizes: Sequence[int]) -> Iterator[tuple[int, BatchMemory]]:
    """Lend memory for up to `threads` threads: yield how many it is for, and the memory; raises MemoryError.

    Batches that are scored at the same time share the threads: each gets what one of so many would have.
    """
    _running.append(None)
    try:
        threads = -(-threads // len(_running))
        needed = (threads, *map(_rounded, sizes))
        room, memory = _take(needed) or (needed, allocate_memory(*needed))
        yield threads, memory
        if all(map(ge, MAX_KEPT, room[1:])) and len(_kept) < MAX_KEPT_MEMORIES:
            _kept.append((room, memory))  # not after an error: a kernel may have been interrupted
    finally:
        _running.pop()


def _rounded(size: int) -> int:
    return 1 << max(12, (size - 1).bit_length())


def _take(needed: tuple[int, ...]) -> tuple[tuple[int, ...], BatchMemory] | None:
    """Return kept memory that suffices, and give up other that is in the way."""
    for _ in range(len(_kept)):
        try:
            room, memory = _kept.pop()
        except IndexError:  # another thread was faster
            break
        if all(map(ge, room, needed)):
            return room, memory
    return None


def _forget() -> None:
    _kept.clear()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Arrays that are larger than what is used of them: pages that nobody touches are never made.

NumPy asks for huge pages, so that touching one byte of a large array would make two megabytes of it.
"""

from __future__ import annotations

import math
import mmap

import numpy as np

__all__ = ["sparse"]

SMALL = 1 << 22

SPARSE = hasattr(mmap, "MADV_NOHUGEPAGE")
"""True on Linux; elsewhere NumPy's own memory serves."""

FLAGS = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0) | getattr(mmap, "MAP_NORESERVE", 0x4000)
"""Private, since Python's default is memory that a process and its forked children write into together. Not reserved,
since a worst case is many times what a text uses. Python before 3.13 does not name this last flag of Linux."""


def sparse(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Return a zeroed, writable array of `shape`; raises MemoryError."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size < SMALL or not SPARSE:
        return np.zeros(shape, dtype)
    try:
        block = mmap.mmap(-1, size, flags=FLAGS)
    except OSError as error:
        raise MemoryError(f"{size} bytes of address space cannot be had: {error.strerror}") from error
    block.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(block, dtype).reshape(shape)

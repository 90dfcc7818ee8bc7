"""Lazily committed arrays: pages that are never touched take no memory.

NumPy asks for huge pages, so touching one byte of its large arrays commits two megabytes.
"""

from __future__ import annotations

import math
import mmap

import numpy as np

__all__ = ["sparse"]

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

"""Text columns in Arrow's layout: one UTF-8 buffer and the offsets of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class TextColumn(NamedTuple):
    """n texts in one buffer; row k is `data[offsets[k]:offsets[k + 1]]`.

    data: uint8 (bytes,), valid UTF-8, read only, C-contiguous.
    offsets: int64 (n + 1,), ascending, read only, in bytes.
    """

    data: np.ndarray
    offsets: np.ndarray

    @property
    def rows(self) -> int:
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> np.ndarray:
        """Return the bytes of each text, int64 (n,)."""
        lengths: np.ndarray = self.offsets[1:] - self.offsets[:-1]  # ten times as fast as `np.diff` for few rows
        return lengths

    @classmethod
    def of(cls, data: np.ndarray, offsets: np.ndarray) -> TextColumn:
        """Return the column as the array types that kernels are compiled for."""
        return cls(frozen(data, np.uint8), frozen(offsets, np.int64))


def frozen(array: np.ndarray, dtype: type) -> np.ndarray:
    """Return a read-only C-contiguous view of `array`, or a copy if dtype or layout require one."""
    view: np.ndarray = np.ascontiguousarray(array, dtype=dtype).view()
    view.setflags(write=False)
    return view


def column_of(texts: Sequence[bytes]) -> TextColumn:
    """Join texts into one column; they must be valid UTF-8."""
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=offsets[1:])
    return TextColumn.of(np.frombuffer(b"".join(texts), dtype=np.uint8), offsets)

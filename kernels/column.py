"""Text as a column in Arrow's layout: one UTF-8 buffer and the offsets that cut it into rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["TextColumn", "column_of"]


class TextColumn(NamedTuple):
    """n texts in one buffer; row k is `data[offsets[k]:offsets[k + 1]]`.

    data: uint8 (bytes,), valid UTF-8, read only, C-contiguous.
    offsets: int64 (n + 1,), ascending, read only, in bytes.
    """

    data: np.ndarray
    offsets: np.ndarray

    @property
    def rows(self) -> int:
        """Number of texts."""
        return self.offsets.shape[0] - 1

    @property
    def lengths(self) -> np.ndarray:
        """int64 (n,): bytes of each text."""
        lengths: np.ndarray = self.offsets[1:] - self.offsets[:-1]  # `np.diff` takes ten times as long for few rows
        return lengths

    @classmethod
    def of(cls, data: np.ndarray, offsets: np.ndarray) -> TextColumn:
        """Wrap two arrays as the one array type that kernels are compiled for."""
        return cls(frozen(data, np.uint8), frozen(offsets, np.int64))


def frozen(array: np.ndarray, dtype: type) -> np.ndarray:
    """A read-only C-contiguous view of `array` (a copy only where dtype or layout ask for one)."""
    view: np.ndarray = np.ascontiguousarray(array, dtype=dtype).view()
    view.setflags(write=False)
    return view


def column_of(texts: Sequence[bytes]) -> TextColumn:
    """Join UTF-8 encoded texts into one column; the caller vouches for their validity."""
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)), out=offsets[1:])
    return TextColumn.of(np.frombuffer(b"".join(texts), dtype=np.uint8), offsets)

"""Intersection over union of two sets given as lists of ids, duplicates allowed (paper eq. 4)."""

from __future__ import annotations

import numpy as np

from ..compiler.jit import inlined, kernel

__all__ = ["iou", "ious"]


@inlined
def iou(a, b, stamps, stamp):
    """Return |A ∩ B| / |A ∪ B| of int64 ids; 1 if both are empty.

    stamps: int64 scratch indexed by id, in which `stamp` and `stamp + 1` do not occur.
    """
    union = 0
    common = 0
    for k in range(a.shape[0]):
        if stamps[a[k]] != stamp:
            stamps[a[k]] = stamp
            union += 1
    for k in range(b.shape[0]):
        seen = stamps[b[k]]
        if seen == stamp:
            common += 1
        elif seen != stamp + 1:
            union += 1
        stamps[b[k]] = stamp + 1
    return common / union if union else 1.0


@kernel
def ious(values, a, a_offsets, b, b_offsets, symbols):
    """Compute the IoU of each pair of rows of two columns of sets.

    values: float64 (rows,), written. a, b: int64 ids in [0, symbols), with int64 offsets (rows + 1,).
    """
    stamps = np.zeros(symbols, np.int64)
    for row in range(values.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        values[row] = iou(first, second, stamps, 2 * row + 1)

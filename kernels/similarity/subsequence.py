"""Tests whether one action sequence is a subsequence of another (paper C.2, strict order)."""

from __future__ import annotations

from ..compiler.jit import helper, kernel

__all__ = ["either_is_subsequence", "is_subsequence", "subsequences"]


@helper
def is_subsequence(a, b):
    """Return whether `a` is a subsequence of `b`; the empty sequence always is."""
    i = 0
    n = a.shape[0]
    if n > b.shape[0]:
        return False
    for j in range(b.shape[0]):
        if i < n and a[i] == b[j]:
            i += 1
    return i == n


@helper
def either_is_subsequence(a, b):
    """Return the strict order: whether one sequence is a subsequence of the other, equality included."""
    return is_subsequence(a, b) or is_subsequence(b, a)


@kernel
def subsequences(flags, a, a_offsets, b, b_offsets):
    """Compute the strict order of each pair of rows of two columns of sequences.

    flags: int64 (rows,), written 1 or 0. a, b: int64. a_offsets, b_offsets: int64 (rows + 1,).
    """
    for row in range(flags.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        flags[row] = either_is_subsequence(first, second)

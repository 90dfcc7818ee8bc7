"""Subsequence test."""

from collections.abc import Sequence


def is_subsequence(a: Sequence, b: Sequence) -> bool:
    """Return whether `a` results from `b` by deleting elements."""
    rest = iter(b)
    return all(any(x == y for y in rest) for x in a)

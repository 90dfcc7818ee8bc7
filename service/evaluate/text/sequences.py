"""Conversion of lists of names to columns of numbers, which kernels compare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ....kernels.column import frozen

__all__ = ["numbered_columns", "pieces"]


def numbered_columns(first: Sequence[Sequence[str]], second: Sequence[Sequence[str]]) -> tuple[list[np.ndarray], int]:
    """Assign numbers to the names of two columns of n rows each.

    Names are numbered row by row, so that the kernels' tables stay small. Return values and offsets of the first
    column and of the second, int64 and read-only, and an upper bound of the numbers.
    """
    sides: tuple[list[int], list[int]] = ([], [])
    offsets: tuple[list[int], list[int]] = ([0], [0])
    symbols = 1
    for pair in zip(first, second, strict=True):
        numbers: dict[str, int] = {}
        for names, side, ends in zip(pair, sides, offsets, strict=True):
            side.extend([numbers.setdefault(name, len(numbers)) for name in names])
            ends.append(len(side))
        symbols = max(symbols, len(numbers))
    arrays = (sides[0], offsets[0], sides[1], offsets[1])
    return [frozen(np.array(values, np.int64), np.int64) for values in arrays], symbols


def pieces(sizes: Iterable[int], max_size: int) -> Iterator[slice]:
    """Yield slices of consecutive rows whose sizes sum to at most `max_size`, or of one row that is larger."""
    begin = total = row = 0
    for row, size in enumerate(sizes, start=1):
        total += size
        if total > max_size and row - 1 > begin:
            yield slice(begin, row - 1)
            begin, total = row - 1, size
    if row > begin:
        yield slice(begin, row)

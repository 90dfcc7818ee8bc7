"""Comparison of sequences of names by kernels, which compare numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ....kernels.column import frozen
from ....kernels.warmup import warmup

__all__ = ["compare_sequences", "pieces"]

NAMES_AT_ONCE = 1 << 18


def compare_sequences(kernel: Callable[..., None], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> np.ndarray:
    """Return what `lcs_lengths` or `levenshtein_distances` gives for each pair of sequences, int64 (len(pairs),)."""
    warmup()
    results = np.zeros(len(pairs), np.int64)
    for piece in pieces([len(first) + len(second) for first, second in pairs], NAMES_AT_ONCE):
        columns, symbols = numbered_columns(pairs[piece])
        kernel(results[piece], *columns, symbols)
    return results


def numbered_columns(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> tuple[list[np.ndarray], int]:
    """Return values and offsets of both sides, int64 and read-only, and an upper bound of the numbers.

    Names are numbered pair by pair, so that the kernels' tables stay small.
    """
    sides: tuple[list[int], list[int]] = ([], [])
    offsets: tuple[list[int], list[int]] = ([0], [0])
    symbols = 1
    for pair in pairs:
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

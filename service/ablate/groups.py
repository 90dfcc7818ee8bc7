"""Figures within the groups of a file, for all groups at once: spread, and Spearman's rank correlation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..scoring.scores import NO_SPREAD, spread_of

__all__ = ["Correlation", "Groups", "Ranks", "Spread"]


class Ranks(NamedTuple):
    """Ranks of a column within each group, as distances from their mean.

    centred: float64 (n,), in the order of the groups. squares: float64 (groups,), the sums of their squares, 0 in a
    group without spread.
    """

    centred: np.ndarray
    squares: np.ndarray


class Correlation(NamedTuple):
    """The mean of the rank correlations of the groups in which both columns differ, None without such a group."""

    mean: float | None
    groups: int


class Spread(NamedTuple):
    """The mean standard deviation within groups of at least two rows, and the share of those without spread."""

    deviation: float
    flat: float


class Groups:
    """The groups of n rows, from the number of each row's group, int64 (n,)."""

    def __init__(self, numbers: np.ndarray) -> None:
        self._order = np.argsort(numbers, kind="stable")
        _, self._first, self.sizes = np.unique(numbers[self._order], return_index=True, return_counts=True)
        self._group = np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def multiple(self) -> int:
        """The number of groups of at least two rows."""
        return int(np.count_nonzero(self.sizes > 1))

    def spread(self, values: np.ndarray, ddof: int) -> Spread | None:
        """Return the spread of a column, float64 (n,); None if no group has two rows."""
        if not self.multiple:
            return None
        *_, deviations, flat = spread_of(values[self._order], np.append(self._first, len(values)), ddof)
        several = self.sizes > 1
        return Spread(float(deviations[several].mean()), float(flat[several].mean()))

    def ranks(self, values: np.ndarray) -> Ranks:
        """Rank a column, float64 (n,), within each group; values that differ by at most 1e-9 share their mean rank."""
        rows = len(values)
        if not rows:
            return Ranks(np.zeros(0), np.zeros(0))
        grouped = values[self._order]
        order = np.lexsort((grouped, self._group))  # groups keep their places
        ordered = grouped[order]
        starts = np.ones(rows, bool)
        starts[1:] = np.diff(ordered) > NO_SPREAD
        starts[self._first] = True
        ties = np.flatnonzero(starts)
        lengths = np.diff(ties, append=rows)
        centred = np.empty(rows)
        centred[order] = np.repeat(ties + (lengths - 1) / 2, lengths)
        centred -= (self._first + (self.sizes - 1) / 2)[self._group]
        return Ranks(centred, np.add.reduceat(centred * centred, self._first))

    def correlation(self, one: Ranks, other: Ranks) -> Correlation:
        """Return Spearman's rank correlation of two columns within groups."""
        both = (one.squares > 0) & (other.squares > 0)
        groups = int(np.count_nonzero(both))
        if not groups:
            return Correlation(None, 0)
        products = np.add.reduceat(one.centred * other.centred, self._first)[both]
        found = products / np.sqrt(one.squares[both] * other.squares[both])
        return Correlation(float(found.mean()), groups)

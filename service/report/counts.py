"""Streaming statistics in bounded memory: distributions, grids, and groups of rewards by prompt."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

from ..files.rows.rows import Location, value_key

__all__ = ["Distribution", "Grid", "Group", "Groups", "log_edges"]

MAX_GROUPS = 100_000
"""Maximum number of groups; rollouts of further groups are only counted, to bound memory."""

MAX_LABEL = 160
"""Characters of a prompt that are shown."""


class Distribution:
    """Histogram with fixed edges, and the exact count, mean and deviation.

    edges: float64, ascending; values outside count in the first or last bin.
    """

    def __init__(self, edges: np.ndarray) -> None:
        self.edges = edges
        self.counts = np.zeros(len(edges) - 1, np.int64)
        self._lows = np.full(len(edges) - 1, math.inf)
        self._highs = np.full(len(edges) - 1, -math.inf)
        self.number = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, values: np.ndarray) -> None:
        """Count float64 values."""
        if not len(values):
            return
        bins = np.clip(np.searchsorted(self.edges, values, "right") - 1, 0, len(self.counts) - 1)
        self.counts += np.bincount(bins, minlength=len(self.counts))
        np.minimum.at(self._lows, bins, values)
        np.maximum.at(self._highs, bins, values)
        # Chan, Golub and LeVeque (1979): merge the means and sums of squares of two sets
        added, mean = len(values), float(values.mean())
        total, delta = self.number + added, mean - self.mean
        self._squares += float(((values - mean) ** 2).sum()) + delta**2 * self.number * added / total
        self.mean += delta * added / total
        self.number = total

    @property
    def deviation(self) -> float:
        """Sample standard deviation; 0 for fewer than two values."""
        return math.sqrt(self._squares / (self.number - 1)) if self.number > 1 else 0.0

    def quantile(self, share: float) -> float:
        """Return a quantile, interpolated linearly as in NumPy; NaN without values.

        It is exact if the bins involved hold one distinct value each, else accurate to the width of a bin.
        """
        if not self.number:
            return math.nan
        pos = share * (self.number - 1)
        below = int(pos)
        low = self._ordered(below)
        return low + (pos - below) * (self._ordered(min(below + 1, self.number - 1)) - low)

    def _ordered(self, k: int) -> float:
        """Return the k-th smallest value, counted from 0."""
        sums = np.cumsum(self.counts)
        b = int(np.searchsorted(sums, k, "right"))
        inside, others = k - int(sums[b] - self.counts[b]), int(self.counts[b]) - 1
        low, high = float(self._lows[b]), float(self._highs[b])
        return high if inside == others else low + inside / others * (high - low)

    def coarse(self, bins: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (edges, counts) with `bins` bins, which must divide the number of fine bins."""
        each = len(self.counts) // bins
        return self.edges[::each], self.counts.reshape(bins, each).sum(axis=1)


class Grid:
    """Two-dimensional histogram, with the mean y of each bin of x and the correlation."""

    def __init__(self, x_edges: np.ndarray, y_edges: np.ndarray) -> None:
        self.x_edges, self.y_edges = x_edges, y_edges
        self.counts = np.zeros((len(x_edges) - 1, len(y_edges) - 1), np.int64)
        self.sums = np.zeros(len(x_edges) - 1)
        self._moments = np.zeros(6)

    def add(self, x: np.ndarray, y: np.ndarray) -> None:
        """Count pairs of float64 values."""
        columns = np.clip(np.searchsorted(self.x_edges, x, "right") - 1, 0, self.counts.shape[0] - 1)
        rows = np.clip(np.searchsorted(self.y_edges, y, "right") - 1, 0, self.counts.shape[1] - 1)
        np.add.at(self.counts, (columns, rows), 1)
        self.sums += np.bincount(columns, y, minlength=len(self.sums))
        self._moments += (len(x), x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum())

    @property
    def means(self) -> list[float | None]:
        """Mean y of each bin of x; None for an empty bin."""
        counts = self.counts.sum(axis=1).tolist()
        return [total / count if count else None for total, count in zip(self.sums.tolist(), counts, strict=True)]

    @property
    def correlation(self) -> float | None:
        """Pearson correlation; None if x or y is constant."""
        number, x, y, xx, yy, xy = self._moments.tolist()
        if not number:
            return None
        spread_x, spread_y = xx / number - (x / number) ** 2, yy / number - (y / number) ** 2
        if spread_x <= 1e-12 * max(1.0, xx / number) or spread_y <= 1e-12 * max(1.0, yy / number):
            return None
        return (xy / number - x * y / number**2) / math.sqrt(spread_x * spread_y)


def log_edges(largest: float) -> np.ndarray:
    """Return 0, 1 and powers up to `largest`, with two edges per doubling."""
    powers = math.ceil(math.log2(largest) * 2)
    return np.array([0.0, *(2 ** (k / 2) for k in range(powers + 1))])


@dataclass(slots=True)
class Group:
    """One prompt and the rewards of its rollouts; `squares` is the sum of the squared distances from the mean."""

    label: str
    first: Location
    mean: float
    least: float
    largest: float
    size: int = 0
    squares: float = 0.0

    def add(self, reward: float) -> None:
        """Count one reward (Welford 1962)."""
        self.size += 1
        delta = reward - self.mean
        self.mean += delta / self.size
        self.squares += delta * (reward - self.mean)
        self.least, self.largest = min(self.least, reward), max(self.largest, reward)

    @property
    def deviation(self) -> float:
        """Sample standard deviation; 0 for one or equal rewards."""
        return math.sqrt(self.squares / (self.size - 1)) if self.least < self.largest else 0.0

    @property
    def flat(self) -> bool:
        """Whether it has two or more rewards, all equal."""
        return self.size > 1 and self.least == self.largest


class Groups:
    """Statistics of every group, a few hundred bytes each, in the order of their first rollouts.

    Groups of equal rewards have advantages of 0 and give no gradient.
    """

    def __init__(self, max_groups: int = MAX_GROUPS) -> None:
        self._max_groups = max_groups
        self._groups: dict[bytes, Group] = {}
        self.left_out = 0
        """Rollouts of groups above the maximum."""

    def add(self, group: Any, location: Location, reward: float) -> None:
        """Count one rollout; `group` is any JSON value."""
        key = value_key(group)
        digest = blake2b(key.encode("utf-8", "replace") if isinstance(key, str) else key, digest_size=16).digest()
        found = self._groups.get(digest)
        if found is None:
            if len(self._groups) >= self._max_groups:
                self.left_out += 1
                return
            found = self._groups[digest] = Group(prompt_label(group), location, reward, reward, reward)
        found.add(reward)

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())


def prompt_label(group: Any) -> str:
    """Return a prompt on one line; only the end of a long one, as it begins with the system prompt."""
    text = group if isinstance(group, str) else orjson.dumps(group).decode()
    text = " ".join(text[-20_000:].split())
    return text if len(text) <= MAX_LABEL else "…" + text[-MAX_LABEL:]

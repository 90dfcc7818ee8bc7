"""Rewards by prompt; groups of equal rewards have advantages of 0 and give no gradient."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..files.rows.rows import Location, value_key

__all__ = ["Group", "Groups"]

MAX_GROUPS = 100_000
"""Maximum number of groups; rollouts of further groups are only counted, to bound memory."""

MAX_LABEL = 160
"""Characters of a prompt that are shown."""


class Group(NamedTuple):
    """One prompt and the rewards of its rollouts."""

    label: str
    first: Location
    size: int
    reward: float
    """The mean."""


class Groups:
    """Statistics of every group, a few hundred bytes each."""

    def __init__(self, max_groups: int = MAX_GROUPS) -> None:
        self._max_groups = max_groups
        self._numbers: dict[bytes, int] = {}
        self._labels: list[str] = []
        self._firsts: list[Location] = []
        self._sizes, self._sums = array("q"), array("d")
        self._squares, self._offsets = array("d"), array("d")
        self._least, self._largest = array("d"), array("d")
        self.left_out = 0
        """Rollouts of groups above the maximum."""

    def add(self, group: Any, location: Location, reward: float) -> None:
        """Count one rollout; `group` is any JSON value."""
        key = value_key(group)
        digest = blake2b(key.encode("utf-8", "replace") if isinstance(key, str) else key, digest_size=16).digest()
        number = self._numbers.get(digest)
        if number is None:
            if len(self._numbers) >= self._max_groups:
                self.left_out += 1
                return
            number = self._numbers[digest] = len(self._numbers)
            self._begin(group, location, reward)
        self._sizes[number] += 1
        delta = reward - self._offsets[number]  # sums of small numbers are more precise
        self._sums[number] += delta
        self._squares[number] += delta * delta
        self._least[number] = min(self._least[number], reward)
        self._largest[number] = max(self._largest[number], reward)

    def _begin(self, group: Any, location: Location, reward: float) -> None:
        self._labels.append(prompt_label(group))
        self._firsts.append(location)
        self._sizes.append(0)
        self._offsets.append(reward)
        for column in (self._sums, self._squares):
            column.append(0.0)
        self._least.append(reward)
        self._largest.append(reward)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def sizes(self) -> np.ndarray:
        """Rollouts of each group, int64 (groups,)."""
        return np.array(self._sizes, np.int64)

    @property
    def means(self) -> np.ndarray:
        """Mean reward of each group, float64 (groups,)."""
        return np.array(self._offsets) + np.array(self._sums) / np.maximum(self.sizes, 1)

    @property
    def deviations(self) -> np.ndarray:
        """Sample standard deviation of each group, float64 (groups,); 0 for one or equal rewards."""
        sizes = np.maximum(self.sizes, 1)
        sums = np.array(self._sums)
        squares = np.maximum(np.array(self._squares) - sums * sums / sizes, 0.0)
        return np.where(self.flat | (sizes < 2), 0.0, np.sqrt(squares / np.maximum(sizes - 1, 1)))

    @property
    def flat(self) -> np.ndarray:
        """Whether a group has two or more rewards, all equal; bool (groups,)."""
        return (np.array(self._least) == np.array(self._largest)) & (self.sizes > 1)

    def listed(self, numbers: Iterable[int]) -> list[Group]:
        """Return these groups for display."""
        means = self.means
        return [Group(self._labels[k], self._firsts[k], self._sizes[k], float(means[k])) for k in numbers]


def prompt_label(group: Any) -> str:
    """Return a prompt on one line; only the end of a long one, as it begins with the system prompt."""
    text = group if isinstance(group, str) else orjson.dumps(group).decode()
    text = " ".join(text[-20_000:].split())
    return text if len(text) <= MAX_LABEL else "…" + text[-MAX_LABEL:]

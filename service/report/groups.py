"""Rewards by prompt: groups whose rewards are all equal have advantages of 0, so they teach nothing."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..files.rows.rows import Place, value_key

__all__ = ["Group", "Groups"]

MAX_GROUPS = 100_000
"""Groups that are told apart; rollouts of more are only counted, so that memory stays bounded."""

SHOWN = 160
"""Characters of a prompt that are kept to show it."""


class Group(NamedTuple):
    """One prompt and its rollouts' rewards."""

    label: str
    first: Place
    size: int
    reward: float
    """The mean."""


class Groups:
    """Counts of every group: some hundred bytes each."""

    def __init__(self, most: int = MAX_GROUPS) -> None:
        self._most = most
        self._numbers: dict[bytes, int] = {}
        self._labels: list[str] = []
        self._firsts: list[Place] = []
        self._sizes, self._sums = array("q"), array("d")
        self._squares, self._offsets = array("d"), array("d")
        self._least, self._largest = array("d"), array("d")
        self.left_out = 0
        """Rollouts whose group came too late to be told apart."""

    def add(self, group: Any, place: Place, reward: float) -> None:
        """Count one rollout; `group` is any JSON value."""
        key = value_key(group)
        digest = blake2b(key.encode("utf-8", "replace") if isinstance(key, str) else key, digest_size=16).digest()
        number = self._numbers.get(digest)
        if number is None:
            if len(self._numbers) >= self._most:
                self.left_out += 1
                return
            number = self._numbers[digest] = len(self._numbers)
            self._begin(group, place, reward)
        self._sizes[number] += 1
        apart = reward - self._offsets[number]  # sums of small numbers keep their digits
        self._sums[number] += apart
        self._squares[number] += apart * apart
        self._least[number] = min(self._least[number], reward)
        self._largest[number] = max(self._largest[number], reward)

    def _begin(self, group: Any, place: Place, reward: float) -> None:
        self._labels.append(label_of(group))
        self._firsts.append(place)
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
        """int64: rollouts of each group."""
        return np.array(self._sizes, np.int64)

    @property
    def means(self) -> np.ndarray:
        """float64."""
        return np.array(self._offsets) + np.array(self._sums) / np.maximum(self.sizes, 1)

    @property
    def deviations(self) -> np.ndarray:
        """float64: of the sample; 0 for a group of one or of equal rewards."""
        sizes = np.maximum(self.sizes, 1)
        sums = np.array(self._sums)
        squares = np.maximum(np.array(self._squares) - sums * sums / sizes, 0.0)
        return np.where(self.flat | (sizes < 2), 0.0, np.sqrt(squares / np.maximum(sizes - 1, 1)))

    @property
    def flat(self) -> np.ndarray:
        """bool: groups of two or more whose rewards are all equal."""
        return (np.array(self._least) == np.array(self._largest)) & (self.sizes > 1)

    def listed(self, numbers: Iterable[int]) -> list[Group]:
        """These groups, for people."""
        means = self.means
        return [Group(self._labels[k], self._firsts[k], self._sizes[k], float(means[k])) for k in numbers]


def label_of(group: Any) -> str:
    """The beginning of a prompt, on one line; the end of a long one says more than its system prompt."""
    text = group if isinstance(group, str) else orjson.dumps(group).decode()
    text = " ".join(text[-20_000:].split())
    return text if len(text) <= SHOWN else "…" + text[-SHOWN:]

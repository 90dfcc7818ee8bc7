"""Groups of rewards by prompt, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..records.rows import Location, value_digest, value_key
from ..scoring.scores import NO_SPREAD

__all__ = ["Group", "Groups", "prompt_label", "shortened"]

MAX_GROUPS = 100_000
"""Maximum number of groups; rollouts of further groups are only counted, to bound memory."""

MAX_LABEL = 160
"""Characters of a prompt that are shown."""


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
        """Sample standard deviation; 0 for one reward, or without spread."""
        return math.sqrt(self.squares / (self.size - 1)) if self.largest - self.least > NO_SPREAD else 0.0

    @property
    def flat(self) -> bool:
        """Whether it has two or more rewards, all equal but for rounding."""
        return self.size > 1 and self.largest - self.least <= NO_SPREAD


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
        digest = value_digest(group)
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
    """Return a prompt on one line, shortened."""
    key = value_key(group)
    return shortened(key if isinstance(key, str) else key.decode(), MAX_LABEL)


def shortened(text: str, limit: int) -> str:
    """Return a text on one line; of a long one its beginning and, since prompts often begin alike, more of its end."""
    if len(text) > 8 * limit:  # long enough for what is kept, also with white space between all words
        text = f"{text[: 4 * limit]} … {text[-4 * limit :]}"
    text = " ".join(text.split())
    first = limit // 3
    return text if len(text) <= limit else f"{text[:first].rstrip()} … {text[first - limit :].lstrip()}"

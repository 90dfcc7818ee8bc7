"""Rewards by group over a whole file: groups may be scattered, so advantages are known only at its end."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

from ..scoring.scores import group_advantages

__all__ = ["GroupedRewards"]


class GroupedRewards:
    """The rewards and group numbers of a file, for its advantages: 16 bytes per row."""

    def __init__(self) -> None:
        self._rewards = array("d")
        self._groups = array("q")

    def add(self, rewards: np.ndarray, groups: Iterable[int]) -> None:
        """Add the group of each row, -1 for one with a fault, and the rewards (float64) of the others."""
        self._rewards.extend(rewards.tolist())
        self._groups.extend(groups)

    def advantages(self, ddof: int) -> np.ndarray:
        """Return float64 (rows,), NaN for rows with a fault; raises InvalidRequest if no group has two rewards."""
        groups = np.array(self._groups, np.int64)
        scored = groups >= 0
        advantages = np.full(len(groups), np.nan)
        advantages[scored] = group_advantages(np.array(self._rewards, np.float64), groups[scored], ddof)
        return advantages

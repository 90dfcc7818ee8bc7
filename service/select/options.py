"""What `assay select` is asked for."""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple

__all__ = ["ALL", "PAIR_TRAINERS", "Mode", "Options"]

Mode = Literal["best", "pairs", "curriculum"]

PAIR_TRAINERS = ("trl", "verl", "openrlhf", "ms-swift")
"""Trainers whose rows of preference pairs can be written."""

ALL = sys.maxsize
"""A number of responses or pairs that no group has."""


class Options(NamedTuple):
    """What to select, and in which form to write it; rewards are compared up to `NO_SPREAD`."""

    mode: Mode
    per_group: int = 1
    """Responses (best) or pairs to select from a group."""
    min_reward: float | None = None
    """Reward from which a response is kept or chosen, or passes (curriculum)."""
    passed: bool = False
    """Whether only responses that pass are kept or chosen."""
    margin: float = 0.0
    """Minimum difference between the rewards of a pair."""
    min_pass_rate: float = 0.0
    max_pass_rate: float = 1.0
    trainer: str | None = None
    """Whose rows to write; None for plain rows."""

    @property
    def is_all(self) -> bool:
        """Whether the number is not limited."""
        return self.per_group == ALL

"""What `assay select` is asked for."""

from __future__ import annotations

import sys
from typing import Literal, NamedTuple

__all__ = ["ALL", "PAIR_TRAINERS", "Mode", "Options"]

Mode = Literal["best", "pairs", "curriculum"]
PAIR_TRAINERS = ("trl", "verl", "openrlhf", "ms-swift")  # trainers whose rows of preference pairs can be written
ALL = sys.maxsize  # a number of responses or pairs that no group has


class Options(NamedTuple):
    mode: Mode
    per_group: int = 1  # responses (best) or pairs to select from a group
    min_reward: float | None = None  # reward from which a response is kept or chosen, or passes (curriculum)
    passed: bool = False  # whether only responses that pass are kept or chosen
    margin: float = 0.0  # minimum difference between the rewards of a pair
    min_pass_rate: float = 0.0
    max_pass_rate: float = 1.0
    trainer: str | None = None  # whose rows to write; None for plain rows

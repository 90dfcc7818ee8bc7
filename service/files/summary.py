"""Figures over a whole file: the summary of `assay score`, and advantages of groups that may be scattered."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..scoring.scores import Scores, group_advantages
from ..terminal import table

if TYPE_CHECKING:
    from rich.table import Table

    from ..evaluate.task_rewards import TaskScores

__all__ = ["QUANTILES", "GroupedRewards", "Summary", "Values", "quantiles"]

QUANTILES = {"min": 0.0, "5 %": 0.05, "25 %": 0.25, "median": 0.5, "75 %": 0.75, "95 %": 0.95, "max": 1.0}
"""Names and probabilities of the quantiles in tables of rewards."""

GATES = ("format", "consistency")
"""Components of SCORE that are 0 or 1."""

MIN_RATED = 1000
"""The rate is shown for at least this many rows; with fewer, most of the time is the start."""


def quantiles(rewards: np.ndarray) -> dict[str, float]:
    """Return the quantiles of at least one float64 value, by the names of `QUANTILES` (linear interpolation).

    The terminal and the reports print these.
    """
    values = np.quantile(rewards, list(QUANTILES.values()))
    return dict(zip(QUANTILES, values.tolist(), strict=True))


class Values:
    """A column of numbers that is collected piece by piece, 8 bytes each."""

    def __init__(self) -> None:
        self._pieces: list[np.ndarray] = []

    def add(self, values: np.ndarray) -> None:
        """Append values."""
        self._pieces.append(values.astype(np.float64))

    def all(self) -> np.ndarray:
        """Return all values, float64."""
        self._pieces = [np.concatenate([np.empty(0), *self._pieces])]
        return self._pieces[0]


class Summary:
    """Accumulates counts piece by piece; keeps the rewards, for exact quantiles."""

    def __init__(self) -> None:
        self._rewards = Values()
        self._gates: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def add(self, scores: Scores | TaskScores) -> None:
        """Count one piece."""
        self._rewards.add(scores.rewards)
        self._reasons.update(scores.reasons)
        for gate in scores.components.keys() & GATES:
            self._gates[gate] += int(np.count_nonzero(scores.components[gate]))

    @property
    def rows(self) -> int:
        """The number of rows, scored or not."""
        return self._reasons.total() + self.faults.total()

    def parts(self, seconds: float) -> list[str | Table]:
        """Return lines and tables; `seconds` is the time from the first row read to the last one written."""
        count = self._reasons.total()
        rate = f", {count / seconds:,.0f} a second" if count >= MIN_RATED and seconds > 0 else ""
        parts: list[str | Table] = [f"scored       {count:,} in {seconds:.2f} s{rate}"]
        if self.faults:
            rows = [(reason, f"{number:,}") for reason, number in self.faults.most_common()]
            parts += [f"not scored   {self.faults.total():,}", "", table(["not scored", "rows"], rows)]
        if count:
            rewards = self._rewards.all()
            values = {"mean reward": rewards.mean(), **quantiles(rewards)}
            parts += ["", table(list(values), [[f"{value:.4f}" for value in values.values()]], left=0)]
            passed = [(gate, self._gates[gate]) for gate in GATES if gate in self._gates]
            for head, found in (("gate", passed), ("reason", self._reasons.most_common())):
                if found:
                    shares = [(name, f"{number:,}", f"{100 * number / count:.1f} %") for name, number in found]
                    parts += ["", table([head, "responses", "share"], shares)]
        return parts


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

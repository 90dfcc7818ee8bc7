"""Selects example rollouts: the highest and lowest rewards, and one for each reason of failure."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ...kernels.status import OK, REASONS
from ..files.rows.rows import Location, Rollout

__all__ = ["Example", "Examples"]

EXAMPLES = 3
"""Number of best and of worst examples."""

MAX_LENGTH = 1 << 18
"""Maximum characters of a response that is kept and explained; longer ones are truncated."""

TRUNCATED_LENGTH = 2_000


@dataclass(frozen=True, slots=True)
class Example:
    """One rollout; `whole` is False if its response is truncated."""

    location: Location
    reward: float
    reason: str
    response: str
    reference: Any
    whole: bool


class Examples:
    """Keeps a bounded number of examples. The choice by reason is random but reproducible."""

    def __init__(self) -> None:
        self._best: list[tuple[float, int, Example]] = []
        self._worst: list[tuple[float, int, Example]] = []
        self._by_reason: dict[str, Example] = {}
        self._seen: Counter[str] = Counter()
        self._count = 0
        self._random = random.Random(0)

    def add(self, rollout: Rollout, reward: float, reason_code: int) -> None:
        """Add a rollout, which may become an example."""
        self._count += 1
        reason = REASONS[reason_code]
        if reason_code == OK:
            self._rank(self._best, reward, rollout, reward, reason)
            self._rank(self._worst, -reward, rollout, reward, reason)
            return
        self._seen[reason] += 1
        if self._random.random() < 1 / self._seen[reason]:
            self._by_reason[reason] = _example(rollout, reward, reason)

    def _rank(
        self, heap: list[tuple[float, int, Example]], rank: float, rollout: Rollout, reward: float, reason: str
    ) -> None:
        if len(heap) < EXAMPLES:
            heapq.heappush(heap, (rank, -self._count, _example(rollout, reward, reason)))
        elif rank > heap[0][0]:  # the first of equal ones stay
            heapq.heapreplace(heap, (rank, -self._count, _example(rollout, reward, reason)))

    def best(self) -> list[Example]:
        """Return the highest rewards, highest first."""
        return [example for _, _, example in sorted(self._best, reverse=True, key=lambda entry: entry[:2])]

    def worst(self) -> list[Example]:
        """Return the lowest rewards that passed both gates and are not among the best, lowest first."""
        best = {example.location for example in self.best()}
        ranked = sorted(self._worst, reverse=True, key=lambda entry: entry[:2])
        return [example for _, _, example in ranked if example.location not in best]

    def by_reason(self) -> list[Example]:
        """Return one failed response for each reason, the most frequent reason first."""
        return [self._by_reason[reason] for reason, _ in self._seen.most_common()]


def _example(rollout: Rollout, reward: float, reason: str) -> Example:
    whole = len(rollout.response) <= MAX_LENGTH
    response = rollout.response if whole else rollout.response[:TRUNCATED_LENGTH]
    return Example(rollout.location, reward, reason, response, rollout.reference if whole else None, whole)

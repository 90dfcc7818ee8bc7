"""Rollouts that are kept to be shown: the best, the worst that were scored, and one for each reason."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...kernels.status import OK, REASONS
from ..files.rows.rows import Place, Rollout

__all__ = ["Example", "Examples"]

EACH = 3
"""Best and worst ones that are kept."""

MAX_LENGTH = 1 << 18
"""Characters up to which a response is kept whole, and explained; of a longer one its beginning is shown."""

BEGINNING = 2_000


@dataclass(frozen=True, slots=True)
class Example:
    """One rollout; `whole` says whether its response was kept."""

    place: Place
    reward: float
    reason: str
    response: str
    reference: Any
    whole: bool


class Examples:
    """Bounded in number and in bytes, whatever goes by. The choice by reason is random, and always the same."""

    def __init__(self) -> None:
        self._best: list[tuple[float, int, Example]] = []
        self._worst: list[tuple[float, int, Example]] = []
        self._by_reason: dict[str, Example] = {}
        self._seen: dict[str, int] = {}
        self._count = 0
        self._random = random.Random(0)

    def add(self, rollout: Rollout, reward: float, reason_code: int) -> None:
        """Keep it, or not."""
        self._count += 1
        reason = REASONS[reason_code]
        if reason_code == OK:
            self._rank(self._best, reward, rollout, reward, reason)
            self._rank(self._worst, -reward, rollout, reward, reason)
            return
        seen = self._seen[reason] = self._seen.get(reason, 0) + 1
        if self._random.random() < 1 / seen:
            self._by_reason[reason] = _example(rollout, reward, reason)

    def _rank(
        self, heap: list[tuple[float, int, Example]], rank: float, rollout: Rollout, reward: float, reason: str
    ) -> None:
        if len(heap) < EACH:
            heapq.heappush(heap, (rank, -self._count, _example(rollout, reward, reason)))
        elif rank > heap[0][0]:  # of equal ones the first stay
            heapq.heapreplace(heap, (rank, -self._count, _example(rollout, reward, reason)))

    def best(self) -> list[Example]:
        """The largest rewards, largest first."""
        return [example for _, _, example in sorted(self._best, reverse=True, key=lambda entry: entry[:2])]

    def worst(self) -> list[Example]:
        """The smallest rewards behind open gates that are not among the best, smallest first."""
        best = {example.place for example in self.best()}
        ranked = sorted(self._worst, reverse=True, key=lambda entry: entry[:2])
        return [example for _, _, example in ranked if example.place not in best]

    def by_reason(self) -> Iterator[tuple[str, int, Example]]:
        """(reason, how many there were, one of them), the most frequent first."""
        for reason, seen in sorted(self._seen.items(), key=lambda pair: -pair[1]):
            yield reason, seen, self._by_reason[reason]


def _example(rollout: Rollout, reward: float, reason: str) -> Example:
    whole = len(rollout.response) <= MAX_LENGTH
    response = rollout.response if whole else rollout.response[:BEGINNING]
    return Example(rollout.place, reward, reason, response, rollout.reference if whole else None, whole)

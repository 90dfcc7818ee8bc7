"""Selects example rollouts: the highest and lowest rewards, and one for each reason of failure."""

from __future__ import annotations

import random
from bisect import insort
from collections import Counter
from dataclasses import dataclass
from typing import Any

import orjson

from ...kernels.status import OK, REASONS
from ..records.fields import prompt_of
from ..records.rows import Location, Rollout
from .groups import shortened

__all__ = ["Example", "Examples"]

EXAMPLES = 3
"""Number of best and of worst examples."""

MAX_LENGTH = 1 << 18
"""Maximum characters of a response that is kept and explained; longer ones are truncated."""

TRUNCATED_LENGTH = 2_000

MAX_PROMPT = 400
"""Characters of a prompt that are shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """One rollout; `whole` is False if its response is truncated. The prompt is shortened, or empty if unknown."""

    location: Location
    reward: float
    reason: str
    prompt: str
    response: str
    reference: Any
    whole: bool


class Examples:
    """Keeps a bounded number of examples. The choice by reason is random but reproducible."""

    def __init__(self) -> None:
        self._best: list[tuple[float, Example]] = []
        self._worst: list[tuple[float, Example]] = []
        self._by_reason: dict[str, Example] = {}
        self._seen: Counter[str] = Counter()
        self._random = random.Random(0)

    def add(self, rollout: Rollout, reward: float, reason_code: int) -> None:
        """Add a rollout, which may become an example."""
        reason = REASONS[reason_code]
        if reason_code == OK:
            _keep(self._best, -reward, rollout, reward)
            _keep(self._worst, reward, rollout, reward)
            return
        self._seen[reason] += 1
        if self._random.random() < 1 / self._seen[reason]:
            self._by_reason[reason] = _example(rollout, reward, reason)

    def best(self) -> list[Example]:
        """Return the highest rewards, highest first."""
        return [example for _, example in self._best]

    def worst(self) -> list[Example]:
        """Return the lowest rewards that passed both gates and are not among the best, lowest first."""
        best = {example.location for example in self.best()}
        return [example for _, example in self._worst if example.location not in best]

    def by_reason(self) -> list[Example]:
        """Return one failed response for each reason, the most frequent reason first."""
        return [self._by_reason[reason] for reason, _ in self._seen.most_common()]


def _keep(ranked: list[tuple[float, Example]], rank: float, rollout: Rollout, reward: float) -> None:
    """Insert a rollout that passed both gates if its rank is among the smallest; the first of equal ones stay."""
    if len(ranked) < EXAMPLES or rank < ranked[-1][0]:
        insort(ranked, (rank, _example(rollout, reward, REASONS[OK])), key=lambda entry: entry[0])
        del ranked[EXAMPLES:]


def _example(rollout: Rollout, reward: float, reason: str) -> Example:
    whole = len(rollout.response) <= MAX_LENGTH
    response = rollout.response if whole else rollout.response[:TRUNCATED_LENGTH]
    reference = rollout.reference if whole else None
    return Example(rollout.location, reward, reason, shown_prompt(rollout), response, reference, whole)


def shown_prompt(rollout: Rollout) -> str:
    """Return the prompt of a row in short: a field of the row, or else the text by which rows are grouped."""
    row = orjson.loads(rollout.text) if rollout.text else {}
    group = rollout.group if isinstance(rollout.group, str) and rollout.group != rollout.reference else ""
    return shortened(prompt_of(row) or group, MAX_PROMPT)

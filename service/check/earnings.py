"""What trivial policies earn under a configuration, beside the gold answers."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..evaluate.scirecipe_records import library_of
from ..explain.reading import Step
from ..rewards.scorer import Scorer
from ..rewards.scores import NO_SPREAD
from .policies import POLICIES, SEED, Policy, answers_of
from .rows import CheckedRow

__all__ = ["Earned", "Earnings"]

GOLD = Policy("gold", "gold answers", "The gold answers themselves.", "", lambda source: None)


class Sums:
    def __init__(self) -> None:
        self.number = 0
        self._sum = self._squares = 0.0

    def add(self, rewards: np.ndarray) -> None:
        self.number += len(rewards)
        self._sum += math.fsum(rewards)
        self._squares += math.fsum(rewards * rewards)

    @property
    def mean(self) -> float | None:
        return self._sum / self.number if self.number else None

    @property
    def standard_error(self) -> float | None:
        if self.number < 2:
            return None
        variance = max(self._squares - self._sum**2 / self.number, 0.0) / (self.number - 1)
        return math.sqrt(variance / self.number)


class Earned(NamedTuple):
    policy: Policy
    rewards: Sums
    passed: int  # answers that pass both gates
    answered: int  # records that the policy has an answer to; the others get the reward of an empty response
    mean_of_answered: float | None
    gold_difference: float | None  # mean reward less the gold answers', over the records that have one

    @property
    def beats_gold(self) -> bool:
        return self.gold_difference is not None and self.gold_difference > NO_SPREAD

    @property
    def equals_gold(self) -> bool:
        return self.gold_difference is not None and abs(self.gold_difference) <= NO_SPREAD

    def document(self) -> dict[str, Any]:
        return {
            "name": self.policy.name,
            "construction": self.policy.construction,
            "records": self.rewards.number,
            "mean_reward": self.rewards.mean,
            "standard_error": self.rewards.standard_error,
            "passed": self.passed,
            "answered": self.answered,
            "mean_reward_of_answered": self.mean_of_answered,
            "gold_difference": self.gold_difference,
            "beats_gold": self.beats_gold,
        }


class Earnings:
    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._generator = random.Random(SEED)
        self._gold, self._passed_gold = Sums(), 0
        self._rewards = [Sums() for _ in POLICIES]
        self._of_answered = [Sums() for _ in POLICIES]
        self._beside_gold = [Sums() for _ in POLICIES]
        self._passed = [0] * len(POLICIES)

    def add(
        self, rows: Sequence[CheckedRow], steps: Sequence[Sequence[Step]], gold: np.ndarray, passed: np.ndarray
    ) -> None:
        """Let every policy answer rows whose references have these steps; `gold` is NaN where a row has none."""
        if not rows:
            return
        libraries = [None if row.record is None else library_of(row.record) for row in rows]
        answers = [answers_of(*source, self._generator) for source in zip(steps, libraries, strict=True)]
        responses = [answer for of_row in answers for answer in of_row]
        index = np.repeat(np.arange(len(rows)), len(POLICIES))
        scores = self._scorer.score(responses, [row.rollout.reference for row in rows], index)
        rewards = scores.rewards.reshape(len(rows), len(POLICIES))
        passing = (scores.reasons == "ok").reshape(rewards.shape)
        answered = np.array([bool(answer) for answer in responses]).reshape(rewards.shape)
        has_gold = ~np.isnan(gold)
        self._gold.add(gold[has_gold])
        self._passed_gold += int(passed[has_gold].sum())
        for k in range(len(POLICIES)):
            self._rewards[k].add(rewards[:, k])
            self._of_answered[k].add(rewards[answered[:, k], k])
            self._beside_gold[k].add(rewards[has_gold, k])
            self._passed[k] += int(passing[:, k].sum())

    def rows(self) -> Iterator[Earned]:
        gold = self._gold
        yield Earned(GOLD, gold, self._passed_gold, gold.number, gold.mean, None)
        for k, policy in enumerate(POLICIES):
            beside, answered = self._beside_gold[k].mean, self._of_answered[k]
            if not answered.number:
                yield Earned(policy, Sums(), 0, 0, None, None)
                continue
            difference = None if beside is None or gold.mean is None else beside - gold.mean
            yield Earned(policy, self._rewards[k], self._passed[k], answered.number, answered.mean, difference)

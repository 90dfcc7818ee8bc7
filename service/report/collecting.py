"""Collects the statistics of a report piece by piece; keeps 8 bytes per reward."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...kernels.score import COMPONENTS
from ...kernels.status import OK, REASONS
from ..explain.case import MAX_BYTES
from ..explain.derivation import smallest_and_largest
from ..files.rows.rows import Rollout
from ..scoring.scores import Scores
from ..scoring.text_columns import utf8
from ..settings import MAX_CONTENT, ScoreSettings
from .counts import Distribution, Grid, log_edges
from .examples import Examples
from .groups import Groups
from .hacking import Tallies, split_parts

__all__ = ["Collection"]

BINS = 1200
"""Bins of rewards and components: quantiles of components are exact to a thousandth of the range."""

UNBOUNDED = {"mean_words": 120.0, "anchors": 60.0}
"""Upper edges for components without a maximum; larger values count in the last bin."""


class Collection:
    """Distributions, groups, examples and reward-hacking signs of the rollouts of a file."""

    def __init__(self, settings: ScoreSettings) -> None:
        self.settings = settings
        smallest, largest = smallest_and_largest(settings)
        self.rewards = Distribution(np.linspace(smallest, largest, BINS + 1))
        self.all_rewards: list[np.ndarray] = []
        """The rewards of each piece, for exact quantiles."""
        self.components = {name: Distribution(_edges(name, settings)) for name in COMPONENTS}
        rewards = np.linspace(smallest, largest, 21)
        self.by_length = Grid(log_edges(settings.max_response_bytes), rewards)
        self.by_steps = Grid(np.arange(0.0, 42.0), rewards)
        self.reasons: Counter[str] = Counter()
        self.groups = Groups()
        self.examples = Examples()
        self.signs = Tallies()

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Add one piece; row k of `scores` belongs to `rollouts[k]`."""
        codes = scores.reason_codes
        passed_gates = codes == OK
        self.rewards.add(scores.rewards)
        self.all_rewards.append(scores.rewards)
        for name, column in scores.components.items():
            counted = column if name in ("format", "consistency", "score") else column[passed_gates]
            self.components[name].add(counted)
        for code, count in enumerate(np.bincount(codes, minlength=len(REASONS)).tolist()):
            self.reasons[REASONS[code]] += count
        lengths, steps = np.empty(len(rollouts)), np.zeros(len(rollouts))
        for k, (rollout, reward, code) in enumerate(
            zip(rollouts, scores.rewards.tolist(), codes.tolist(), strict=True)
        ):
            content = utf8(rollout.response)
            lengths[k] = len(content)
            self.groups.add(rollout.group, rollout.location, reward)
            self.examples.add(rollout, reward, code)
            if code == OK and len(content) <= MAX_BYTES:
                parts = split_parts(content, self.settings.think_prefilled)
                steps[k] = len(parts.bodies)
                self.signs.add(rollout, parts, reward)
        self.by_length.add(lengths, scores.rewards)
        known = steps > 0
        self.by_steps.add(steps[known], scores.rewards[known])


def _edges(name: str, settings: ScoreSettings) -> np.ndarray:
    best = {"content": MAX_CONTENT, "semantics": settings.largest_score, "score": settings.largest_score}
    return np.linspace(0.0, UNBOUNDED.get(name, best.get(name, 1.0)), BINS + 1)

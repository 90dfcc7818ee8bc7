"""What a report keeps of a file while it is scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ...kernels.status import OK, REASONS
from ..explain.case import MAX_BYTES
from ..explain.explanation import smallest_and_largest
from ..files.summary import Values
from ..records.rows import Rollout
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from ..scoring.text_columns import utf8
from .comparison.correlation import pearson
from .examples import Examples
from .groups import Groups
from .hacking import Tallies, split_parts

__all__ = ["COMPONENTS", "Statistics", "correlation"]

COMPONENTS = {
    "coverage": "Share of the words of a key step that its prose has; the lowest of the steps.",
    "step_gap": "f: agreement of the number of steps with the reference's.",
    "mean_words": "Mean number of words per prose step.",
    "scale": "f / g: the number of steps, over the penalty for long prose.",
    "order": "Order of the actions.",
    "content": "Objects and parameters of the matched steps, at most 1.5.",
    "semantics": "Order and content combined.",
    "anchors": "Number of matched steps.",
    "score": "SCORE before it is mapped to the reward.",
}
"""The components that are shown, of responses that pass both gates."""

LAST_TAG = "</note>"
"""What a response that was cut off lacks."""


class Statistics:
    """Rewards, components and sizes of all responses (about 100 bytes each), counts, groups, examples and signs."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.bounds = smallest_and_largest(scorer.settings)
        """The rewards of SCORE 0 and of the maximum SCORE."""
        self.rewards, self.passed, self.lengths = Values(), Values(), Values()
        self.steps = Values()
        self.components = {name: Values() for name in COMPONENTS}
        self.reasons: Counter[str] = Counter()
        self.truncated = 0
        """Responses without all sections that begin with one and lack the last end tag."""
        self.groups = Groups()
        self.examples = Examples()
        self.signs = Tallies()

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Add one piece; row k of `scores` belongs to `rollouts[k]`."""
        codes = scores.reason_codes
        passed = codes == OK
        self.rewards.add(scores.rewards)
        self.passed.add(passed)
        for name, values in self.components.items():
            values.add(scores.components[name][passed])
        lengths, steps = np.empty(len(rollouts)), np.zeros(len(rollouts))
        for k, (rollout, reward, code) in enumerate(
            zip(rollouts, scores.rewards.tolist(), codes.tolist(), strict=True)
        ):
            content = utf8(rollout.response)
            lengths[k] = len(content)
            reason = REASONS[code]
            self.reasons[reason] += 1
            if reason == "missing_sections":
                self.truncated += "<key>" in rollout.response and LAST_TAG not in rollout.response
            self.groups.add(rollout.group, rollout.location, reward)
            self.examples.add(rollout, reward, code)
            if code == OK and len(content) <= MAX_BYTES:
                parts = split_parts(content, self.scorer.settings.think_prefilled)
                steps[k] = len(parts.bodies)
                self.signs.add(rollout, parts, reward)
        self.lengths.add(lengths)
        self.steps.add(steps)


def correlation(x: np.ndarray, rewards: np.ndarray) -> float | None:
    """Return Pearson's correlation; None if x is constant, or if rewards are but for rounding."""
    return pearson(x, rewards) if len(x) and np.ptp(rewards) > 1e-12 else None

"""Results of scoring: columns for a batch, one row for a single response."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

__all__ = ["COMPONENTS", "REASONS", "Score", "Scores"]

COMPONENTS = (
    "format",
    "consistency",
    "coverage",
    "step_gap",
    "mean_words",
    "scale",
    "order",
    "content",
    "semantics",
    "anchors",
    "score",
)
"""Names of the components, in the order of replies; every reply with components has all of them."""

REASONS = (
    "ok",
    "too_long",
    "think_not_opened",
    "missing_sections",
    "no_steps",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "key_numbering",
    "orc_numbering",
    "step_count",
    "low_coverage",
)
"""Reasons by their code: 0 is `ok`, the others say why a response could not be scored."""


class Score(NamedTuple):
    """The finite reward of one response, with its reason and components."""

    reward: float
    reason: str
    """`ok`, or why the response could not be scored."""
    components: Mapping[str, float]
    config_id: str
    """Digest of the configuration and the version of the scoring rules."""
    signature: str = ""
    """The same in one readable line, to be quoted beside the reward; empty if the service is of a version before it."""

    @property
    def reason_code(self) -> int:
        """Index in `REASONS`; -1 for a reason unknown to this version of the client."""
        return reason_code(self.reason)


@dataclass(frozen=True)
class Scores:
    """Columns with one finite entry per response, in the order of the responses."""

    rewards: list[float]
    reasons: list[str]
    components: dict[str, list[float]] | None
    """By name; None unless requested."""
    advantages: list[float] | None
    """Group advantages; None unless requested."""
    config_id: str
    request_id: str
    signature: str = ""
    """The configuration in one readable line, to be quoted beside the rewards."""

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not self.rewards:
            return "Scores(0 responses)"
        reasons = ", ".join(f"{reason} {n}" for reason, n in Counter(self.reasons).most_common())
        return f"Scores({len(self)} responses, mean reward {sum(self.rewards) / len(self):.4f}; {reasons})"

    def row(self, k: int) -> Score:
        """Return the score of response `k`."""
        components = {name: column[k] for name, column in (self.components or {}).items()}
        return Score(self.rewards[k], self.reasons[k], components, self.config_id, self.signature)

    def rows(self) -> Iterator[Score]:
        """Yield the score of every response: faster than `row` for each."""
        names, columns = tuple(self.components or ()), tuple((self.components or {}).values())
        numbers: Iterator[tuple[float, ...]] = zip(*columns, strict=True) if columns else repeat(())
        for reward, reason, values in zip(self.rewards, self.reasons, numbers, strict=False):
            yield Score(reward, reason, dict(zip(names, values, strict=True)), self.config_id, self.signature)


def reason_code(reason: str) -> int:
    return REASONS.index(reason) if reason in REASONS else -1

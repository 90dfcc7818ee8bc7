"""Scores one piece of a file as a batch; each distinct reference is parsed once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...errors import InvalidReference, Issue
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .rows import Fault, Rollout, value_key

__all__ = ["assign_faults", "column_results", "score_rollouts"]

REFERENCE_PATH = re.compile(r"references\[(\d+)\]")


def score_rollouts(scorer: Scorer, rollouts: Sequence[Rollout]) -> Scores:
    """Score the rollouts without a fault; one whose reference is invalid gets a fault and is left out.

    The result has a row for each rollout that is without a fault afterwards, in order.
    """
    while True:
        readable = [rollout for rollout in rollouts if rollout.fault is None]
        numbers: dict[str | bytes, int] = {}
        index = [numbers.setdefault(value_key(rollout.reference), len(numbers)) for rollout in readable]
        references: list[Any] = [None] * len(numbers)
        for rollout, number in zip(readable, index, strict=True):
            references[number] = rollout.reference
        try:
            return scorer.score([rollout.response for rollout in readable], references, index)
        except InvalidReference as error:
            assign_faults(error.issues, readable, index)


def assign_faults(issues: Sequence[Issue], rollouts: Sequence[Rollout], index: Sequence[int]) -> None:
    """Set the fault of every rollout whose reference has an issue."""
    faults: dict[int, Fault] = {}
    for issue in issues:
        found = REFERENCE_PATH.match(issue.path)
        if found is None:
            raise InvalidReference(issues)
        faults.setdefault(int(found[1]), Fault(issue.reason, f"reference: {issue.detail}"))
    for rollout, number in zip(rollouts, index, strict=True):
        rollout.fault = faults.get(number)


def column_results(scores: Scores, components: bool) -> Iterator[dict[str, Any]]:
    """Yield the results of each row: `reward`, `reason` and, with `components`, the components."""
    rewards, reasons = scores.rewards.tolist(), scores.reasons.tolist()
    if not components:
        for reward, reason in zip(rewards, reasons, strict=True):
            yield {"reward": reward, "reason": reason}
        return
    names = list(scores.components)
    columns = (column.tolist() for column in scores.components.values())
    for reward, reason, *values in zip(rewards, reasons, *columns, strict=True):
        yield {"reward": reward, "reason": reason, "components": dict(zip(names, values, strict=True))}

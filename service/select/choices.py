"""Which rows and groups are selected, and why the others are not: from their numbers alone."""

from __future__ import annotations

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..rewards.scores import NO_SPREAD
from .options import Options
from .scored_rows import Eligibility, ScoredRows

__all__ = ["Choice", "GroupFigures", "choose", "figures_of"]

NO_CANDIDATE = {
    Eligibility.FAILED_GATE: "all_failed_gate",
    Eligibility.BELOW_MIN_REWARD: "all_below_min_reward",
    Eligibility.NOT_PASSED: "none_passed",
}
"""Why a group without an eligible response is dropped, by the last condition that one of its responses met."""


class GroupFigures(NamedTuple):
    rollouts: int
    pass_rate: float
    mean_reward: float
    spread: float  # largest minus smallest

    @property
    def without_spread(self) -> str | None:
        """Why nothing can be learned by comparing the rewards, if so: DAPO's rule, equal but for rounding."""
        if self.rollouts < 2:
            return "single"
        return "no_spread" if self.spread <= NO_SPREAD else None


@dataclass
class Choice:
    picked: array[int] = field(default_factory=lambda: array("q"))  # kept, chosen, or the first of a group
    rejected: array[int] = field(default_factory=lambda: array("q"))  # the other row of each pair
    kept_groups: int = 0
    dropped_groups: dict[int, str] = field(default_factory=dict)  # reason by the number of the group
    dropped_rows: Counter[str] = field(default_factory=Counter)  # rows that are not among the best, by reason


def choose(rows: ScoredRows, members: Sequence[np.ndarray], options: Options) -> Choice:
    choice = Choice()
    rule = {"best": _choose_best, "pairs": _choose_pairs, "curriculum": _choose_prompt}[options.mode]
    for number, group in enumerate(members):
        reason = rule(rows, group.tolist(), options, choice)
        if reason is None:
            choice.kept_groups += 1
        else:
            choice.dropped_groups[number] = reason
    if options.mode == "curriculum":
        _sort_by_difficulty(rows, members, choice)
    return choice


def figures_of(rows: ScoredRows, group: Sequence[int]) -> GroupFigures:
    rewards = [rows.rewards[row] for row in group]
    size = len(rewards)
    passes = sum(rows.passed[row] for row in group)
    return GroupFigures(size, passes / size, math.fsum(rewards) / size, max(rewards) - min(rewards))


def _choose_best(rows: ScoredRows, group: list[int], options: Options, choice: Choice) -> str | None:
    """Keep the eligible responses with the highest rewards, each text once; the earlier of equal ones."""
    eligible = [row for row in group if rows.eligibility[row] == Eligibility.ELIGIBLE]
    choice.dropped_rows.update(Eligibility(code).name.lower() for row in group if (code := rows.eligibility[row]))
    unique = _unique(rows, sorted(eligible, key=lambda row: -rows.rewards[row]))
    kept = unique[: options.per_group]
    choice.picked.extend(kept)
    choice.dropped_rows.update(duplicate=len(eligible) - len(unique), not_among_best=len(unique) - len(kept))
    return None if kept else _no_candidate(rows, group)


def _choose_pairs(rows: ScoredRows, group: list[int], options: Options, choice: Choice) -> str | None:
    """Pair eligible responses with others of lower rewards, the largest differences first."""
    if reason := figures_of(rows, group).without_spread:
        return reason
    ranked = _unique(rows, sorted(group, key=lambda row: -rows.rewards[row]))
    chosen = [row for row in ranked if rows.eligibility[row] == Eligibility.ELIGIBLE]
    if not chosen:
        return _no_candidate(rows, group)
    count = 0
    for better, worse in _by_difference(rows, chosen, sorted(ranked, key=lambda row: (rows.rewards[row], row))):
        difference = rows.rewards[better] - rows.rewards[worse]
        if count == options.per_group or difference <= NO_SPREAD or difference < options.margin - NO_SPREAD:
            break
        choice.picked.append(better)
        choice.rejected.append(worse)
        count += 1
    return None if count else "below_margin"


def _by_difference(rows: ScoredRows, chosen: list[int], rejected: list[int]) -> Iterator[tuple[int, int]]:
    """Merge chosen rows, by falling reward, with rejected ones, by rising reward: yield pairs by falling difference."""
    heap = [(rows.rewards[rejected[0]] - rows.rewards[row], row, rejected[0], 0) for row in chosen]
    heapq.heapify(heap)
    while heap:
        _, better, worse, k = heap[0]
        yield better, worse
        if k + 1 == len(rejected):
            heapq.heappop(heap)
        else:
            worse = rejected[k + 1]
            heapq.heapreplace(heap, (rows.rewards[worse] - rows.rewards[better], better, worse, k + 1))


def _choose_prompt(rows: ScoredRows, group: list[int], options: Options, choice: Choice) -> str | None:
    figures = figures_of(rows, group)
    if reason := figures.without_spread:
        return reason
    if figures.pass_rate < options.min_pass_rate:
        return "below_min_pass_rate"
    if figures.pass_rate > options.max_pass_rate:
        return "above_max_pass_rate"
    choice.picked.append(group[0])
    return None


def _sort_by_difficulty(rows: ScoredRows, members: Sequence[np.ndarray], choice: Choice) -> None:

    def difficulty(row: int) -> tuple[float, float, int]:
        figures = figures_of(rows, members[rows.groups[row]].tolist())
        return (-figures.pass_rate, -figures.mean_reward, row)

    choice.picked = array("q", sorted(choice.picked, key=difficulty))


def _unique(rows: ScoredRows, ranked: list[int]) -> list[int]:
    first: dict[int, int] = {}
    for row in ranked:
        first.setdefault(rows.digests[row], row)
    return list(first.values())


def _no_candidate(rows: ScoredRows, group: list[int]) -> str:
    return NO_CANDIDATE[Eligibility(max(rows.eligibility[row] for row in group))]

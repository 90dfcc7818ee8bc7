"""Metrics of rewards by training run and task: reasons, components, and the spread within groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client.metrics_core import CounterMetricFamily, Metric, SummaryMetricFamily

from .....kernels.score import COMPONENTS
from ....evaluate.evaluation import task_named
from ....evaluate.task_rewards import REWARD_TASKS, SCORE, reasons_of
from ....scoring.scores import NO_SPREAD, Scores
from ..runs import UNNAMED
from .histogram import Histogram

__all__ = ["RewardMetrics"]

REWARDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 2.5, 5.0)
DEVIATIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.75, 1.0, 2.5)

COUNTERS = (
    ("responses", "Scored responses by reason.", ("reason",)),
    ("responses_passed", "Responses that pass: for SCORE, both gates with the reference's order of actions.", ()),
    ("reward_below_zero", "Sum of the rewards below 0, without their sign.", ()),
    ("component_below_zero", "Sum of the values of a component below 0, without their sign.", ("component",)),
)
"""Counters by run and task: name, documentation, and further labels."""


class SignedSum:
    """The sums of the positive and of the negative values, both without a sign."""

    def __init__(self) -> None:
        self.above = self.below = 0.0

    def add(self, values: np.ndarray) -> None:
        """Add a column of at least one value."""
        if values.min() >= 0:
            self.above += values.sum().item()
        else:
            self.above += values[values > 0].sum().item()
            self.below -= values[values < 0].sum().item()


class Totals:
    """Counts and sums over the responses of one task in one run."""

    def __init__(self, task: str) -> None:
        self.reason_names = list(reasons_of(task))
        self.reasons = np.zeros(len(self.reason_names), np.int64)
        self.passed = 0
        self.reward = SignedSum()
        names = COMPONENTS if task == SCORE else task_named(task).components
        self.components = {name: SignedSum() for name in names}

    def add(self, scores: Scores, rows: slice | np.ndarray) -> None:
        """Add the responses of these rows."""
        self.reasons += np.bincount(scores.reason_codes[rows], minlength=len(self.reasons))
        self.passed += int(np.count_nonzero(scores.passed[rows]))
        self.reward.add(scores.rewards[rows])
        for name, total in self.components.items():
            total.add(scores.components[name][rows])


class RewardMetrics:
    """Not thread-safe: for the event loop only. The caller bounds the number of runs.

    Sums must not fall, or Prometheus takes that for a restart: they have only positive values, and separate counters
    the negative ones, such as those of a correlation.
    """

    def __init__(self) -> None:
        by = ("run", "task")
        rewards = "Rewards, as they were sent; the sum is that of those above 0."
        self._rewards = Histogram("assay_reward", rewards, REWARDS, by)
        spread = "Standard deviation (n - 1) of the rewards of a group of two or more responses in one request."
        self._deviations = Histogram("assay_group_reward_std", spread, DEVIATIONS, ("run",))
        self._totals: dict[tuple[str, str], Totals] = {}
        self._flat_groups: dict[str, int] = {}
        self._totals_of(UNNAMED, SCORE)

    def _totals_of(self, run: str, task: str) -> Totals:
        """Return the totals of a task in a run; new ones have a series for every reason, so that shares are defined."""
        totals = self._totals.get((run, task))
        if totals is None:
            totals = self._totals[run, task] = Totals(task)
            self._flat_groups.setdefault(run, 0)
        return totals

    def count(self, run: str, scores: Scores) -> None:
        """Count the responses of a run, of any tasks."""
        codes = scores.task_codes
        found = np.flatnonzero(np.bincount(codes)).tolist()
        for code in found:
            task = REWARD_TASKS[code]
            rows = codes == code if len(found) > 1 else slice(None)
            self._totals_of(run, task).add(scores, rows)
            self._rewards.observe_column(np.maximum(scores.rewards[rows], 0.0), run, task)

    def count_groups(self, run: str, rewards: np.ndarray, groups: np.ndarray) -> None:
        """Count the groups of two or more responses of one request; `groups` numbers them, int64 (n,), n > 0."""
        order = np.argsort(groups, kind="stable")
        numbers, grouped = groups[order], rewards[order]
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        ranges = np.maximum.reduceat(grouped, starts) - np.minimum.reduceat(grouped, starts)
        centred = grouped - np.repeat(np.add.reduceat(grouped, starts) / sizes, sizes)
        deviations = np.sqrt(np.add.reduceat(centred * centred, starts) / np.maximum(sizes - 1, 1))
        several, flat = sizes > 1, ranges <= NO_SPREAD
        if several.any():
            self._deviations.observe_column(np.where(flat, 0.0, deviations)[several], run)
            self._flat_groups[run] += int(np.count_nonzero(several & flat))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for prometheus_client."""
        yield from self._rewards.collect()
        yield from self._deviations.collect()
        by = ["run", "task"]
        families = {
            name: CounterMetricFamily(f"assay_{name}", documentation, labels=[*by, *further])
            for name, documentation, further in COUNTERS
        }
        mean = "Components of the scored responses, 0 for one that fails a gate; the sum is that of those above 0."
        components = SummaryMetricFamily("assay_component", mean, labels=[*by, "component"])
        for labels, totals in self._totals.items():
            count = int(totals.reasons.sum())
            families["responses_passed"].add_metric(labels, totals.passed)
            families["reward_below_zero"].add_metric(labels, totals.reward.below)
            for reason, responses in zip(totals.reason_names, totals.reasons.tolist(), strict=True):
                families["responses"].add_metric([*labels, reason], responses)
            for name, total in totals.components.items():
                components.add_metric([*labels, name], count, total.above)
                families["component_below_zero"].add_metric([*labels, name], total.below)
        tied = "Groups of two or more responses whose rewards lie within 1e-9, which therefore have no advantages."
        flat = CounterMetricFamily("assay_groups_without_spread", tied, labels=["run"])
        for run, groups in self._flat_groups.items():
            flat.add_metric([run], groups)
        yield from (*families.values(), components, flat)

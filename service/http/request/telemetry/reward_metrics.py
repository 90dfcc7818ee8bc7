"""Metrics of rewards by training run and task: reasons, components, and the spread within groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client.metrics_core import CounterMetricFamily, Metric, SummaryMetricFamily

from .....kernels.score import COMPONENTS
from .....kernels.status import REASONS
from ....evaluate.task_rewards import SCORE
from ..runs import UNNAMED
from .histogram import Histogram

__all__ = ["RewardMetrics"]

REWARDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 2.5, 5.0)
DEVIATIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.75, 1.0, 2.5)

TIE = 1e-9
"""Rewards of a group that differ by no more give no advantages (docs/rules.md)."""


class Totals:
    """Counts and sums over the responses of one task in one run."""

    def __init__(self, task: str) -> None:
        self.reason_names, self.component_names = REASONS, COMPONENTS
        self.reasons = np.zeros(len(self.reason_names), np.int64)
        self.components = np.zeros(len(self.component_names))
        self.passed = 0


class RewardMetrics:
    """Not thread-safe: for the event loop only. The caller bounds the number of runs."""

    def __init__(self) -> None:
        by = ("run", "task")
        self._rewards = Histogram("assay_reward", "Rewards, as they were sent.", REWARDS, by)
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

    def count(
        self,
        run: str,
        task: str,
        rewards: np.ndarray,
        reason_codes: np.ndarray,
        passed: np.ndarray,
        measures: np.ndarray,
    ) -> None:
        """Count n responses of one task: columns of length n, and `measures`, its components in rows (k, n)."""
        totals = self._totals_of(run, task)
        totals.reasons += np.bincount(reason_codes, minlength=len(totals.reasons))
        totals.components += measures.sum(axis=1)
        totals.passed += int(np.count_nonzero(passed))
        self._rewards.observe_column(rewards, run, task)

    def count_groups(self, run: str, rewards: np.ndarray, groups: np.ndarray) -> None:
        """Count the groups of two or more responses of one request; `groups` numbers them, int64 (n,)."""
        order = np.argsort(groups, kind="stable")
        numbers, grouped = groups[order], rewards[order]
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        sizes = np.diff(np.r_[starts, len(grouped)])
        ranges = np.maximum.reduceat(grouped, starts) - np.minimum.reduceat(grouped, starts)
        centred = grouped - np.repeat(np.add.reduceat(grouped, starts) / sizes, sizes)
        deviations = np.sqrt(np.add.reduceat(centred * centred, starts) / np.maximum(sizes - 1, 1))
        several, flat = sizes > 1, ranges <= TIE
        if several.any():
            self._deviations.observe_column(np.where(flat, 0.0, deviations)[several], run)
            self._flat_groups[run] += int(np.count_nonzero(several & flat))

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics for prometheus_client."""
        yield from self._rewards.collect()
        yield from self._deviations.collect()
        by = ["run", "task"]
        responses = CounterMetricFamily("assay_responses", "Scored responses by reason.", labels=[*by, "reason"])
        perfect = "Responses with a perfect result: for SCORE, those that pass both gates in the right order."
        passed = CounterMetricFamily("assay_responses_passed", perfect, labels=by)
        mean = "Components of the scored responses; 0 for a response that fails a gate."
        components = SummaryMetricFamily("assay_component", mean, labels=[*by, "component"])
        for labels, totals in self._totals.items():
            count = int(totals.reasons.sum())
            passed.add_metric(labels, totals.passed)
            for name, value in zip(totals.reason_names, totals.reasons.tolist(), strict=True):
                responses.add_metric([*labels, name], value)
            for name, total in zip(totals.component_names, totals.components.tolist(), strict=True):
                components.add_metric([*labels, name], count, total)
        tied = "Groups of two or more responses whose rewards lie within 1e-9, which therefore have no advantages."
        flat = CounterMetricFamily("assay_groups_without_spread", tied, labels=["run"])
        for run, groups in self._flat_groups.items():
            flat.add_metric([run], groups)
        yield from (responses, passed, components, flat)

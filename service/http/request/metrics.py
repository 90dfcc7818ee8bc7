"""Prometheus metrics, named `assay_…` in base units, with one registry per application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, disable_created_metrics

from ....kernels.score import COMPONENTS
from ...rewards.registry import REWARD_TASKS, SCORE, reward_of
from ...rewards.scores import Scores, spread_of
from ...tasks.task import OUT_OF_TIME
from ...wire.stage_times import STAGES, StageTimes
from .run_names import UNNAMED, RunNames
from .series import MAX_WAITING, Histogram, Series, SeriesTable, paced_rendering

RESPONSES = "assay_responses"
PASSED = "assay_responses_passed"
REWARD_BELOW = "assay_reward_below_zero"
COMPONENT_BELOW = "assay_component_below_zero"
COMPONENT = "assay_component"
FLAT_GROUPS = "assay_groups_without_spread"
CUT_OFF = "assay_responses_cut_off"

FAMILIES = (
    (RESPONSES, "Scored responses by reason.", "counter"),
    (PASSED, "Responses that pass: for SCORE, both gates with the reference's order of actions.", "counter"),
    (REWARD_BELOW, "Sum of the absolute values of the rewards below 0.", "counter"),
    (COMPONENT_BELOW, "Sum of the absolute values of a component below 0.", "counter"),
    (
        COMPONENT,
        "Components of the scored responses, 0 if a gate fails; the sum counts only values above 0.",
        "summary",
    ),
    (
        FLAT_GROUPS,
        "Groups of two or more responses whose rewards lie within 1e-9 of each other, so all advantages are 0.",
        "counter",
    ),
    (
        CUT_OFF,
        "Responses to SCORE that are too long, or begin sections and stop before the last end tag.",
        "counter",
    ),
)


class TaskCounters:
    """The counters of one task, which have consecutive numbers in every run.

    They are the responses by reason, the responses that pass, the sum of the rewards below 0, the count, sum above 0
    and sum below 0 of each component, the groups without spread, and of SCORE the responses that are cut off.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.reasons = list(reward_of(task).reasons)
        self.components = reward_of(task).components
        self.width = len(self.reasons) + 2 + 3 * len(self.components)

    def series(self, run: str) -> list[Series]:
        labels = (("run", run), ("task", self.task))
        series = [Series(RESPONSES, f"{RESPONSES}_total", (("reason", reason), *labels)) for reason in self.reasons]
        series += (Series(name, f"{name}_total", labels) for name in (PASSED, REWARD_BELOW))
        for component in self.components:
            by = (("component", component), *labels)
            series += (Series(COMPONENT, f"{COMPONENT}_{part}", by) for part in ("count", "sum"))
            series.append(Series(COMPONENT_BELOW, f"{COMPONENT_BELOW}_total", by))
        last = (FLAT_GROUPS, CUT_OFF) if self.task == SCORE else (FLAT_GROUPS,)
        return [*series, *(Series(name, f"{name}_total", labels) for name in last)]

    def sums(self, scores: Scores, rows: slice | np.ndarray) -> np.ndarray:
        """Add up these rows; return float64 (width,), without the last ones."""
        counts = np.bincount(scores.reason_codes[rows], minlength=len(self.reasons))
        late = counts[self.reasons.index(OUT_OF_TIME)] if OUT_OF_TIME in self.reasons else 0
        measures = np.array([scores.components[name][rows] for name in self.components])
        by_component = np.empty((len(self.components), 3))
        by_component[:, 0] = counts.sum() - late  # late responses have no components
        by_component[:, 1:] = above_and_below(measures)
        below = above_and_below(scores.rewards[rows])[1]
        return np.concatenate([counts, [scores.passed[rows].sum(), below], by_component.ravel()])


def above_and_below(values: np.ndarray) -> np.ndarray:
    """Return the sum of the values above 0, and that of the absolute values of those below, along the last axis."""
    if values.min() >= 0:
        return np.stack([values.sum(axis=-1), np.zeros(values.shape[:-1])], axis=-1)
    return np.stack([np.maximum(values, 0.0).sum(axis=-1), np.maximum(-values, 0.0).sum(axis=-1)], axis=-1)


REWARDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 2.5, 5.0)
DEVIATIONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.75, 1.0, 2.5)


class RewardMetrics:
    """Histograms and counters of rewards. Not thread-safe: for the event loop only. The caller bounds the runs.

    Sums must not fall, or Prometheus takes that for a restart: they have only the positive values. Separate counters
    have the negative values, for example of a correlation.
    """

    def __init__(self, table: SeriesTable) -> None:
        self._table = table
        rewards = "Rewards as they were sent; the sum counts only rewards above 0."
        self._rewards = Histogram(table, "assay_reward", rewards, REWARDS, ("run", "task"))
        spread = "Standard deviation (n - 1) of the rewards of a group of two or more responses in one request."
        self._deviations = Histogram(table, "assay_group_reward_std", spread, DEVIATIONS, ("run", "task"))
        for family in FAMILIES:
            table.add_family(*family)
        self._tasks = {task: TaskCounters(task) for task in REWARD_TASKS}
        self._starts: dict[tuple[str, str], int] = {}
        self._start(UNNAMED, SCORE)

    def _start(self, run: str, task: str) -> int:
        """Return the first counter of a task in a run; add all counters at once, so that shares are defined."""
        start = self._starts.get((run, task))
        if start is None:
            start = self._starts[run, task] = self._table.add(self._tasks[task].series(run))
        return start

    def count(self, run: str, scores: Scores, cut_off: int) -> None:
        """Count the responses of one request of a run, of any tasks, those that are cut off, and their groups.

        A group with responses of several tasks counts once for each task: their rewards have no common scale.
        """
        codes = scores.task_codes
        present = np.flatnonzero(np.bincount(codes)).tolist()
        for code in present:
            task = REWARD_TASKS[code]
            rows = codes == code if len(present) > 1 else slice(None)
            scored = rows if scores.unscored is None else (codes == code) & ~scores.unscored
            self._count_rows(run, task, scores, rows, scored)
            self.count_groups(run, task, scores.rewards[scored], scores.group_index[scored])
        self._count_cut_off(run, cut_off)

    def count_singles(self, runs: Sequence[str], scores: Scores, cut_off: np.ndarray) -> None:
        """Count responses to SCORE of one request each.

        runs: the run of each response, sorted. cut_off: int64 (n,), 1 for a response that is cut off.
        """
        start = 0
        for run, responses in groupby(runs):
            rows = slice(start, start + len(list(responses)))
            self._count_rows(run, SCORE, scores, rows, rows)
            self._count_cut_off(run, int(cut_off[rows].sum()))
            start = rows.stop

    def _count_cut_off(self, run: str, cut_off: int) -> None:
        if cut_off:
            self._table.values[self._start(run, SCORE) + self._tasks[SCORE].width + 1] += cut_off

    def _count_rows(
        self, run: str, task: str, scores: Scores, rows: slice | np.ndarray, scored: slice | np.ndarray
    ) -> None:
        self._rewards.observe_column(np.maximum(scores.rewards[scored], 0.0), run, task)
        counters, start = self._tasks[task], self._start(run, task)
        self._table.values[start : start + counters.width] += counters.sums(scores, rows)

    def count_groups(self, run: str, task: str, rewards: np.ndarray, groups: np.ndarray) -> None:
        """Count a task's groups of two or more responses of one request; `groups` numbers them, int64 (n,)."""
        if not len(rewards):
            return
        order = np.argsort(groups, kind="stable")
        numbers, grouped = groups[order], rewards[order]
        starts = np.flatnonzero(np.r_[True, numbers[1:] != numbers[:-1]])
        offsets = np.r_[starts, len(grouped)]
        sizes, _, _, deviations, flat = spread_of(grouped, offsets)
        several = sizes > 1
        if several.any():
            self._deviations.observe_column(deviations[several], run, task)
            number = self._start(run, task) + self._tasks[task].width
            self._table.values[number] += np.count_nonzero(several & flat)


DURATIONS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)
REQUEST = ("route", "code")

REJECTIONS = (
    "unauthorized",
    "cross_site",
    "wrong_host",
    "too_large",
    "too_slow",
    "head_too_large",
    "not_http",
    "pipelined",
    "descriptors",
    "over_capacity",
    "memory_full",
    "out_of_memory",
    "not_ready",
    "deadline",
    "masked",
)
"""Reasons counted as rejections: overload, auth and protocol errors, and rollouts answered with a mask instead of a
reward. Validation errors (422) are not counted here."""

Single = tuple[str, float, float, float, float, float, int, int, bytes]
"""A request of one response: its run's label, stages, reward, reason code, 1 if it is cut off, and components."""


class Metrics:
    """The metrics of one process. Not thread-safe: for the event loop only."""

    def __init__(
        self, build: dict[str, str], gauges: Sequence[tuple[str, str, Callable[[], float]]], runs: RunNames
    ) -> None:
        self.table = SeriesTable()
        self.runs = runs
        self.answered = 0
        """POST requests that got their reply, for the log: no probes."""
        self._singles: list[Single] = []
        self.requests = Histogram(
            self.table, "assay_request_duration_seconds", "From a request's head to its reply.", DURATIONS, REQUEST
        )
        self.stages = Histogram(self.table, "assay_stage_duration_seconds", "Stages of scoring.", DURATIONS, ("stage",))
        self.batches = Histogram(self.table, "assay_batch_responses", "Responses in a scored request.", BATCHES)
        waited = "Waiting time of requests that had to wait."
        self.waits = Histogram(self.table, "assay_queue_wait_seconds", waited, DURATIONS)
        self.rewards = RewardMetrics(self.table)
        self._rendering = paced_rendering(self._refreshed)
        self._plain = CollectorRegistry()
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each counter that nobody reads
        gone = "Clients that left before their reply was ready."
        self.disconnects = Counter("assay_client_disconnects", gone, registry=self._plain)
        turned_away = "Requests that were turned away, by reason."
        rejections = Counter("assay_rejections", turned_away, ("reason",), registry=self._plain)
        self.rejections = {reason: rejections.labels(reason) for reason in REJECTIONS}
        Info("assay_build", "Version of the service, and its default configuration.", registry=self._plain).info(build)
        for name, documentation, read in gauges:
            Gauge(name, documentation, registry=self._plain).set_function(read)
        ProcessCollector(namespace="assay", registry=self._plain)

    def rejected(self, kind: str) -> None:
        counter = self.rejections.get(kind.replace("-", "_"))
        if counter is not None:
            counter.inc()

    def counting(self, scores: Scores, cut_off: int, times: StageTimes, run: str = "") -> Callable[[], None]:
        """Return a function that counts one scored request later, when its scores may have changed.

        cut_off: the number of its responses that are cut off.
        """
        label = self.runs.label(run)
        if scores.is_score and len(scores.rewards) == 1:
            seconds = times.decode, times.score, times.encode, times.queue
            measures = scores.measures.tobytes()
            single = (label, *seconds, scores.rewards.item(), scores.reason_codes.item(), cut_off, measures)
            return partial(self._count_single, single)
        return partial(self._count_batch, label, scores, cut_off, times)

    def _count_single(self, single: Single) -> None:
        self._singles.append(single)
        if len(self._singles) == MAX_WAITING:
            self._count_singles()

    def _count_batch(self, label: str, scores: Scores, cut_off: int, times: StageTimes) -> None:
        for stage in STAGES:
            self.stages.observe(getattr(times, stage), stage)
        self.batches.observe(len(scores))
        if len(scores):
            self.rewards.count(label, scores, cut_off)

    def _count_singles(self) -> None:
        if not self._singles:
            return
        self._singles.sort(key=itemgetter(0))
        runs, *columns, measures = zip(*self._singles, strict=True)
        self._singles.clear()
        *stages, rewards, reason_codes, cut_off = map(np.array, columns)
        for stage, seconds in zip(STAGES, stages, strict=True):
            self.stages.observe_column(seconds, stage)
        n = len(rewards)
        self.batches.observe_column(np.ones(n))
        table = np.frombuffer(b"".join(measures)).reshape(n, len(COMPONENTS)).T
        self.rewards.count_singles(runs, Scores(rewards, reason_codes, table, np.arange(n)), cut_off)

    async def exposition(self, openmetrics: bool) -> bytes:
        return (await self._rendering())[openmetrics]

    def refresh(self) -> SeriesTable:
        """Count buffered values and read the gauges; return the table with the current values."""
        self._count_singles()
        for histogram in (self.requests, self.stages, self.batches, self.waits):
            histogram.count_waiting()
        self.table.put(self._plain.collect())
        return self.table

    async def _refreshed(self) -> SeriesTable:
        return self.refresh()

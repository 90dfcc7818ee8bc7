"""Prometheus metrics, named `assay_…` in base units, with one registry per application."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, disable_created_metrics

from .....kernels.score import COMPONENTS
from ....rewards.scores import Scores
from ...wire.stage_times import STAGES, StageTimes
from ..runs import RunNames
from .exposition import paced_rendering
from .histogram import MAX_WAITING, Histogram
from .reward_metrics import RewardMetrics
from .series import SeriesTable

__all__ = ["Metrics"]

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

Single = tuple[str, float, float, float, float, float, int, bytes]
"""A request of one response: its run's label, stages, reward, reason code and components."""


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

    def counting(self, scores: Scores, times: StageTimes, run: str = "") -> Callable[[], None]:
        """Return a function that counts one scored request later, when its scores may have changed."""
        label = self.runs.label(run)
        if scores.is_score and len(scores.rewards) == 1:
            seconds = times.decode, times.score, times.encode, times.queue
            measures = scores.measures.tobytes()
            single = (label, *seconds, scores.rewards.item(), scores.reason_codes.item(), measures)
            return partial(self._count_single, single)
        return partial(self._count_batch, label, scores, times)

    def _count_single(self, single: Single) -> None:
        self._singles.append(single)
        if len(self._singles) == MAX_WAITING:
            self._count_singles()

    def _count_batch(self, label: str, scores: Scores, times: StageTimes) -> None:
        for stage in STAGES:
            self.stages.observe(getattr(times, stage), stage)
        self.batches.observe(len(scores))
        if len(scores):
            self.rewards.count(label, scores)

    def _count_singles(self) -> None:
        if not self._singles:
            return
        labels, *columns, measures = zip(*self._singles, strict=True)
        self._singles.clear()
        *stages, rewards, reason_codes = map(np.array, columns)
        for stage, seconds in zip(STAGES, stages, strict=True):
            self.stages.observe_column(seconds, stage)
        n = len(rewards)
        self.batches.observe_column(np.ones(n))
        table = np.frombuffer(b"".join(measures)).reshape(n, len(COMPONENTS)).T
        self.rewards.count_singles(labels, Scores(rewards, reason_codes, table, np.arange(n)))

    async def exposition(self, openmetrics: bool) -> bytes:
        return (await self._rendering()).bytes_in(openmetrics)

    def refresh(self) -> SeriesTable:
        """Count buffered values and read the gauges; return the table with the current values."""
        self._count_singles()
        for histogram in (self.requests, self.stages, self.batches, self.waits):
            histogram.count_waiting()
        self.table.put(self._plain.collect())
        return self.table

    async def _refreshed(self) -> SeriesTable:
        return self.refresh()

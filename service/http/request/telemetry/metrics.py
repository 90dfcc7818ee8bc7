"""Prometheus metrics, named `assay_…` in base units, with one registry per application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import Metric

from .....kernels.score import COMPONENTS
from ....scoring.scores import Scores
from ...wire.stage_times import STAGES, StageTimes
from ..runs import RunNames
from .histogram import MAX_WAITING, Histogram
from .reward_metrics import RewardMetrics

__all__ = ["Metrics"]

DURATIONS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)

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


Single = tuple[float, float, float, float, float, int, bytes]
"""A request of one response: its stages, reward, reason code and components."""


class Metrics:
    """Everything the service counts about itself."""

    def __init__(
        self, build: dict[str, str], gauges: Sequence[tuple[str, str, Callable[[], float]]], runs: RunNames
    ) -> None:
        self.registry = CollectorRegistry()
        self.runs = runs
        self._singles: dict[str, list[Single]] = {}
        self.registry.register(self)
        self.requests = Histogram(
            "assay_request_duration_seconds", "From a request's head to its reply.", DURATIONS, ("route", "code")
        )
        self.stages = Histogram("assay_stage_duration_seconds", "Stages of scoring.", DURATIONS, ("stage",))
        self.batches = Histogram("assay_batch_responses", "Responses in a scored request.", BATCHES)
        self.waits = Histogram("assay_queue_wait_seconds", "Waiting of requests that had to wait.", DURATIONS)
        self.rewards = RewardMetrics()
        for collector in (self.requests, self.stages, self.waits, self.batches, self.rewards):
            self.registry.register(collector)
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each counter that nobody reads
        gone = "Clients that left before their reply was ready."
        self.disconnects = Counter("assay_client_disconnects", gone, registry=self.registry)
        turned_away = "Requests that were turned away, by the reason."
        self.rejections = self._counters("assay_rejections", turned_away, REJECTIONS)
        Info("assay_build", "Version of the service, and its default configuration.", registry=self.registry).info(
            build
        )
        for name, documentation, read in gauges:
            Gauge(name, documentation, registry=self.registry).set_function(read)
        ProcessCollector(namespace="assay", registry=self.registry)

    def _counters(self, name: str, documentation: str, reasons: Sequence[str]) -> dict[str, Counter]:
        """Return a counter for each reason."""
        family = Counter(name, documentation, ("reason",), registry=self.registry)
        return {reason: family.labels(reason) for reason in reasons}

    def rejected(self, kind: str) -> None:
        """Count one request that was answered with this kind of problem, if it is a rejection."""
        counter = self.rejections.get(kind.replace("-", "_"))
        if counter is not None:
            counter.inc()

    def scored(self, scores: Scores, times: StageTimes, run: str = "") -> None:
        """Count one scored request of a run, by its name; empty for a request without one."""
        label = self.runs.label(run)
        if type(scores) is Scores and len(scores.rewards) == 1:
            seconds = times.decode, times.score, times.encode, times.queue
            measures = scores.measures.tobytes()
            singles = self._singles.get(label)
            if singles is None:
                singles = self._singles[label] = []
            singles.append((*seconds, scores.rewards.item(), scores.reason_codes.item(), measures))
            if len(singles) == MAX_WAITING:
                self._count_singles(label)
            return
        for stage in STAGES:
            self.stages.observe(getattr(times, stage), stage)
        self.batches.observe(len(scores))
        if len(scores):
            self.rewards.count(label, scores)
            self.rewards.count_groups(label, scores.rewards, scores.group_index)

    def _count_singles(self, label: str) -> None:
        """Count the buffered requests of one response to SCORE."""
        *columns, measures = zip(*self._singles[label], strict=True)
        self._singles[label].clear()
        *stages, rewards, reason_codes = map(np.array, columns)
        for stage, seconds in zip(STAGES, stages, strict=True):
            self.stages.observe_column(seconds, stage)
        n = len(rewards)
        self.batches.observe_column(np.ones(n))
        table = np.frombuffer(b"".join(measures)).reshape(n, len(COMPONENTS)).T
        self.rewards.count(label, Scores(rewards, reason_codes, table, np.arange(n), 1))

    def collect(self) -> Iterator[Metric]:
        """Yield no metric; registered first, so that a scrape counts the buffered requests."""
        for label, singles in self._singles.items():
            if singles:
                self._count_singles(label)
        yield from ()

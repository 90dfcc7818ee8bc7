"""Prometheus metrics, named `assay_…` in base units, with one registry per application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, disable_created_metrics
from prometheus_client.metrics_core import HistogramMetricFamily, Metric

from .....kernels.status import REASONS
from ...wire.stage_times import STAGES, StageTimes

__all__ = ["Metrics"]

DURATIONS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0)
REWARDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5, 2.0, 2.5, 5.0)

MAX_WAITING = 1024

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


class Histogram:
    """Observations counted by upper bound. Not thread-safe: for the event loop only.

    Single values are buffered until there are many, or until a scrape, and counted as one column with few NumPy calls.
    (prometheus_client's own class takes no columns, and uses a lock and a search per value.)
    """

    def __init__(self, name: str, documentation: str, bounds: Sequence[float], labels: Sequence[str] = ()) -> None:
        self._name, self._documentation, self._labels = name, documentation, tuple(labels)
        self._bounds = tuple(bounds)
        self._edges = np.array(bounds)
        self._waiting: dict[tuple[str, ...], list[float]] = {}
        self._counts: dict[tuple[str, ...], np.ndarray] = {}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one value."""
        waiting = self._waiting.get(labels)
        if waiting is None:
            waiting = self._waiting[labels] = []
        waiting.append(value)
        if len(waiting) == MAX_WAITING:
            self._count(labels)

    def observe_column(self, values: np.ndarray, *labels: str) -> None:
        """Count every value of a float64 column."""
        added = np.bincount(np.searchsorted(self._edges, values), minlength=len(self._bounds) + 1)
        self._counts[labels] = self._counts.get(labels, 0) + added
        self._sums[labels] = self._sums.get(labels, 0.0) + float(values.sum())

    def _count(self, labels: tuple[str, ...]) -> None:
        waiting = self._waiting[labels]
        self.observe_column(np.array(waiting), *labels)
        waiting.clear()

    def collect(self) -> Iterator[Metric]:
        """Yield the histogram as a metric of prometheus_client."""
        for labels, waiting in self._waiting.items():
            if waiting:
                self._count(labels)
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        names = [*map(str, self._bounds), "+Inf"]
        for labels, counts in self._counts.items():
            family.add_metric(labels, list(zip(names, np.cumsum(counts).tolist(), strict=True)), self._sums[labels])
        yield family


class Metrics:
    """Everything the service counts about itself."""

    def __init__(self, build: dict[str, str], gauges: Sequence[tuple[str, str, Callable[[], float]]]) -> None:
        self.registry = CollectorRegistry()
        self._singles: list[tuple[float, ...]] = []
        self.registry.register(self)
        self.requests = Histogram(
            "assay_request_duration_seconds", "From a request's head to its reply.", DURATIONS, ("route", "code")
        )
        self.stages = Histogram("assay_stage_duration_seconds", "Stages of scoring.", DURATIONS, ("stage",))
        self.batches = Histogram("assay_batch_responses", "Responses in a scored request.", BATCHES)
        self.rewards = Histogram("assay_reward", "Rewards, as they were sent.", REWARDS)
        self.waits = Histogram("assay_queue_wait_seconds", "Waiting of requests that had to wait.", DURATIONS)
        for collector in (self.requests, self.stages, self.waits, self.batches, self.rewards):
            self.registry.register(collector)
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a series for each counter that nobody reads
        gone = "Clients that left before their reply was ready."
        self.disconnects = Counter("assay_client_disconnects", gone, registry=self.registry)
        self.responses = self._counters("assay_responses", "Scored responses by reason.", REASONS)
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

    def scored(self, rewards: np.ndarray, reason_codes: np.ndarray, times: StageTimes) -> None:
        """Count one scored request: float64 rewards, uint8 reason codes."""
        if len(rewards) == 1:
            single = times.decode, times.score, times.encode, times.queue, rewards.item(), reason_codes.item()
            self._singles.append(single)
            if len(self._singles) == MAX_WAITING:
                self._count_singles()
            return
        for stage in STAGES:
            self.stages.observe(getattr(times, stage), stage)
        self.batches.observe(len(rewards))
        self._count_responses(rewards, reason_codes)

    def _count_responses(self, rewards: np.ndarray, reason_codes: np.ndarray) -> None:
        self.rewards.observe_column(rewards)
        for code, count in enumerate(np.bincount(reason_codes).tolist()):
            self.responses[REASONS[code]].inc(count)

    def _count_singles(self) -> None:
        """Count the buffered requests of one response."""
        *stages, rewards, reason_codes = np.array(self._singles).T
        self._singles.clear()
        for stage, seconds in zip(STAGES, stages, strict=True):
            self.stages.observe_column(seconds, stage)
        self.batches.observe_column(np.ones(len(rewards)))
        self._count_responses(rewards, reason_codes.astype(np.int64))

    def collect(self) -> Iterator[Metric]:
        """Yield no metric; registered first, so that a scrape counts the buffered requests."""
        if self._singles:
            self._count_singles()
        yield from ()

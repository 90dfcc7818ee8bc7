"""Metrics of several processes, merged by what has changed: exact, never falling, in messages of bounded length."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from assay.service.http.process.worker import MAX_LINE, encode_message
from assay.service.http.request.exchange import RunNames
from assay.service.http.request.exposition import CHUNK_SERIES as CHUNK
from assay.service.http.request.exposition import Differences, MergedMetrics, WorkerMetrics
from assay.service.http.request.metrics import RewardMetrics
from assay.service.http.request.series import SeriesTable
from assay.service.rewards.registry import REWARD_TASKS
from assay.service.rewards.scores import Scores


class Process:
    """A worker's table, and what the supervisor knows of it."""

    def __init__(self, merged: MergedMetrics) -> None:
        self.table = SeriesTable()
        self.metrics = WorkerMetrics()
        self._merged = merged
        self._differences = Differences(self.table)

    def report(self) -> list[bytes]:
        """Send what has changed; return the messages."""
        lines = [encode_message(message) for message in self._differences.messages()]
        for line in lines:
            self._merged.update(self.metrics, orjson.loads(line))
        return lines


class Counting(Process):
    """A worker that counts rewards of SCORE."""

    def __init__(self, merged: MergedMetrics) -> None:
        super().__init__(merged)
        self.waiting = 0
        """Rewards that it has not reported."""
        self._rewards = RewardMetrics(self.table)

    def count(self, run: str, reward: float) -> None:
        scores = Scores.zeros(np.zeros(1, np.uint8), np.zeros(1, np.int64))
        scores.rewards[:] = reward
        self._rewards.count(run, scores)
        self.waiting += 1


def merged_values(merged: MergedMetrics, workers: dict[int, Process], own: Iterable[Metric] = ()) -> dict[str, float]:
    """Return the merged values by sample and label values."""
    table = merged.merge({slot: worker.metrics for slot, worker in workers.items()}, own)
    names = [" ".join([sample, *(value for _, value in labels)]) for _, sample, labels in table.series]
    return dict(zip(names, table.values.tolist(), strict=True))


def families(number: float, ready: float) -> list[Metric]:
    things = CounterMetricFamily("assay_things", "Things.", labels=["route"])
    things.add_metric(["/"], number)
    return [
        things,
        GaugeMetricFamily("assay_ready", "Ready.", ready),
        GaugeMetricFamily("assay_bytes", "Bytes.", number),
        InfoMetricFamily("assay_build", "Build.", {"version": "1"}),
        GaugeMetricFamily("assay_process_max_fds", "Files.", 1000 + number),
    ]


def test_counts_add_up_and_gauges_are_those_of_live_workers():
    merged = MergedMetrics(RunNames(2))
    workers = {slot: Process(merged) for slot in range(3)}
    for worker, metrics in zip(workers.values(), (families(1, 0), families(2, 1), families(4, 1)), strict=True):
        worker.table.put(metrics)
        worker.report()
    own = [GaugeMetricFamily("assay_workers", "Workers.", 3)]
    assert merged_values(merged, workers, own) == {
        "assay_things_total /": 7,
        "assay_ready": 1,
        "assay_bytes": 7,
        "assay_build_info 1": 1,
        "assay_process_max_fds": 1001,
        "assay_workers": 3,
    }
    merged.end(0, workers.pop(0).metrics)
    workers[0] = Process(merged)
    found = merged_values(merged, workers, own)
    assert (found["assay_things_total /"], found["assay_bytes"], found["assay_process_max_fds"]) == (7, 6, 1002)
    merged.end(0, workers.pop(0).metrics)  # one that has not reported yet
    assert merged_values(merged, workers, own)["assay_things_total /"] == 7


def test_only_what_has_changed_is_sent():
    merged = MergedMetrics(RunNames(128))
    worker = Process(merged)
    metrics = RewardMetrics(worker.table)
    scores = Scores.zeros(np.zeros(3, np.uint8), np.zeros(3, np.int64))
    for k in range(100):
        metrics.count(f"run {k}", scores)
    assert sum(map(len, worker.report())) > 100_000
    assert worker.report() == []
    metrics.count("run 7", scores)
    (line,) = worker.report()
    assert len(line) < 2000
    assert merged_values(merged, {0: worker})["assay_reward_count run 7 score"] == 6


def test_messages_have_a_bounded_length():
    """The longest names, with characters that JSON escapes, in the greatest number of runs, of every task."""
    merged = MergedMetrics(RunNames(128))
    worker = Process(merged)
    metrics = RewardMetrics(worker.table)
    scores = Scores.zeros(np.arange(len(REWARD_TASKS), dtype=np.uint8).repeat(2), np.zeros(12, np.int64))
    for k in range(130):
        metrics.count(f"{k:03}" + 97 * "\\", scores)
    lines = worker.report()
    assert len(lines) > len(worker.table.series) / CHUNK > 50
    worker.table.values[:] += 1 / 3
    lines += worker.report()
    assert max(map(len, lines)) < MAX_LINE / 4
    assert len(encode_message({"runs": [f"{k:03}" + 97 * "\\" for k in range(128)]})) < MAX_LINE / 4
    found = merged_values(merged, {0: worker})
    assert len(found) == len(worker.table.series) - 355  # two runs are counted as others


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60)


@given(STEPS, st.randoms(use_true_random=False))
def test_nothing_falls_when_workers_end(steps, dice: random.Random):
    """Not by a rounding error either; and a worker that is killed loses only what it has not reported."""
    merged = MergedMetrics(RunNames(2))
    workers = {slot: Counting(merged) for slot in range(3)}
    reported, found, before = 0, {}, {}
    for slot, run, reports, ends in steps:
        worker = workers[slot]
        worker.count(f"run {run}", dice.random())
        if reports:
            worker.report()
            reported += worker.waiting
            worker.waiting = 0
        if ends:
            merged.end(slot, worker.metrics)
            workers[slot] = Counting(merged)
        before, found = found, merged_values(merged, workers)
        assert all(found[key] >= value for key, value in before.items())
    assert sum(value for key, value in found.items() if key.startswith("assay_reward_count")) == reported

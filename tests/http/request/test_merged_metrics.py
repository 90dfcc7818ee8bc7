"""Metrics of several processes, merged: exact, never falling, by reports of what is new."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric

from assay.service.http.request.metrics import RewardMetrics
from assay.service.http.request.run_names import RunNames
from assay.service.http.request.series import MergedMetrics, Reports, SeriesTable
from assay.service.rewards.scores import Scores


class Process:
    """The worker in a slot: its table, and what it has not reported."""

    def __init__(self, merged: MergedMetrics, slot: int) -> None:
        self.table = SeriesTable()
        self.waiting = 0
        """Rewards that it has not reported."""
        self._merged, self._slot = merged, slot
        self._reports = Reports(self.table)
        self._rewards: RewardMetrics | None = None

    def count(self, run: str, reward: float = 0.0) -> None:
        self._rewards = self._rewards or RewardMetrics(self.table)
        scores = Scores.zeros(np.zeros(1, np.uint8), np.zeros(1, np.int64))
        scores.rewards[:] = reward
        self._rewards.count(run, scores, 0)
        self.waiting += 1

    def report(self) -> int:
        """Send a report; return the bytes of what is new in it."""
        new, values = self._reports.next()
        text = orjson.dumps(new)
        self._merged.update(self._slot, orjson.loads(text), values)
        self.waiting = 0
        return len(text)


def merged_values(merged: MergedMetrics, own: Iterable[Metric] = ()) -> dict[str, float]:
    """Return the merged values by sample and label values."""
    table = merged.merge(own)
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
    merged = MergedMetrics(3, RunNames(2))
    for slot, metrics in enumerate((families(1, 0), families(2, 1), families(4, 1))):
        worker = Process(merged, slot)
        worker.table.put(metrics)
        worker.report()
    own = [GaugeMetricFamily("assay_workers", "Workers.", 3)]
    assert merged_values(merged, own) == {
        "assay_things_total /": 7,
        "assay_ready": 1,
        "assay_bytes": 7,
        "assay_build_info 1": 1,
        "assay_process_max_fds": 1001,
        "assay_workers": 3,
    }
    merged.end(0)
    values = merged_values(merged, own)
    assert (values["assay_things_total /"], values["assay_bytes"], values["assay_process_max_fds"]) == (7, 6, 1002)
    for slot in range(3):  # the first one has not reported anew
        merged.end(slot)
    values = merged_values(merged, own)
    assert (values["assay_things_total /"], values["assay_bytes"], values["assay_process_max_fds"]) == (7, 0, 0)


def test_a_series_is_named_only_once():
    merged = MergedMetrics(1, RunNames(128))
    worker = Process(merged, 0)
    for k in range(100):
        worker.count(f"run {k}")
    assert worker.report() > 100_000
    worker.count("run 7")
    assert worker.report() < 100
    assert merged_values(merged)["assay_reward_count run 7 score"] == 2


STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.booleans(), st.booleans()), max_size=60)


@given(STEPS, st.randoms(use_true_random=False))
def test_nothing_falls_when_workers_end(steps, dice: random.Random):
    """Not by a rounding error either; and a worker that is killed loses only what it has not reported."""
    merged = MergedMetrics(3, RunNames(2))
    workers = {slot: Process(merged, slot) for slot in range(3)}
    reported, merged_counts, before = 0, {}, {}
    for slot, run, reports, ends in steps:
        worker = workers[slot]
        worker.count(f"run {run}", dice.random())
        if reports:
            reported += worker.waiting
            worker.report()
        if ends:
            merged.end(slot)
            workers[slot] = Process(merged, slot)
        before, merged_counts = merged_counts, merged_values(merged)
        assert all(merged_counts[key] >= value for key, value in before.items())
    assert sum(value for key, value in merged_counts.items() if key.startswith("assay_reward_count")) == reported

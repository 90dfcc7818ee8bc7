"""The text of /metrics: the bytes that prometheus_client would write, rendered seldom, of a bounded length."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from unittest.mock import AsyncMock

import numpy as np
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Sample

from assay.kernels.score import COMPONENTS
from assay.service.config import Config, ServerSettings
from assay.service.http.endpoints.about import About
from assay.service.http.request.metrics import Metrics
from assay.service.http.request.run_names import RunNames
from assay.service.http.request.series import Exposition, Paced, Renderer, SeriesTable
from assay.service.http.routes import add_routes
from assay.service.http.state import ServiceState
from assay.service.rewards.registry import REWARD_TASKS, reward_of
from assay.service.rewards.scores import Scores
from assay.service.wire.problems import KINDS
from assay.service.wire.stage_times import StageTimes
from tests.http.request.exchanges import in_loop

MAX_RUNS = 128


class Registry:
    """A table as a registry, as prometheus_client's functions want it."""

    def __init__(self, table: SeriesTable) -> None:
        self._table = table

    def collect(self) -> Iterator[Metric]:
        metrics = {family.name: Metric(*family) for family in self._table.families}
        for (family, name, labels), value in zip(self._table.series, self._table.values.tolist(), strict=True):
            metrics[family].samples.append(Sample(name, dict(labels), value))
        yield from metrics.values()


def render(renderer: Renderer, table: SeriesTable) -> Exposition:
    return renderer.render(tuple(table.families), table.series, table.values.copy())


def expected(table: SeriesTable) -> Exposition:
    registry = Registry(table)
    return generate_latest(registry), openmetrics.generate_latest(registry)


def metrics_of(max_runs: int = MAX_RUNS) -> Metrics:
    build = {"version": '1 "beta" \\', "config_id": "x"}
    return Metrics(build, [("assay_ready", 'Ready, "so to speak".', lambda: 1)], RunNames(max_runs))


NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=12)
VALUES = st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, 999999.0, 1e6, 1234567.0, 1e21, 1e-7, 2.0**53])


@given(st.lists(st.tuples(NAMES, st.lists(VALUES, min_size=1, max_size=4)), max_size=4))
def test_both_formats_are_the_bytes_of_prometheus_client(steps):
    """Also after each of several changes: lines whose values are the same are not written again."""
    metrics, renderer = metrics_of(), Renderer()
    assert render(renderer, metrics.refresh()) == expected(metrics.table)
    for k, (name, values) in enumerate(steps):
        metrics.requests.observe(values[0] % 10 if np.isfinite(values[0]) else 1.0, "/v1/score", str(200 + k))
        scores = Scores(np.ones(1), np.zeros(1, np.uint8), np.ones((len(COMPONENTS), 1)), np.zeros(1, np.int64))
        metrics.counting(scores, 0, StageTimes(), name)()
        metrics.rejected("too-large")
        metrics.refresh().values[: len(values)] = values
        assert render(renderer, metrics.table) == expected(metrics.table)


def test_a_single_request_is_counted_as_it_was_scored():
    """The fast path reuses its columns for the next request, which may come before the reply of this one is sent."""
    metrics = metrics_of()
    scores = Scores(np.full(1, 0.25), np.zeros(1, np.uint8), np.ones((len(COMPONENTS), 1)), np.zeros(1, np.int64))
    count = metrics.counting(scores, 0, StageTimes())
    scores.rewards[:], scores.reason_codes[:], scores.measures[:] = 2.5, 3, 0.0
    text = render(Renderer(), metrics.refresh())[0]
    assert b'assay_responses_total{reason="ok",run="unnamed",task="score"} 0.0' in text
    count()
    text = render(Renderer(), metrics.refresh())[0]
    assert b'assay_reward_sum{run="unnamed",task="score"} 0.25' in text
    assert b'assay_responses_total{reason="ok",run="unnamed",task="score"} 1.0' in text


@in_loop
async def test_each_waits_for_a_rendering_that_begins_after_it_came():
    """Whoever comes while one is under way shares the next one, which begins no sooner than the interval allows."""
    began: list[float] = []
    ends = asyncio.Event()

    async def run() -> int:
        began.append(time.monotonic())
        number = len(began)
        await ends.wait()
        return number

    paced = Paced(run, 0.3)
    first = [asyncio.create_task(paced()) for _ in range(5)]
    while not began:
        await asyncio.sleep(0)
    second = [asyncio.create_task(paced()) for _ in range(6)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(began) == 1
    second[0].cancel()
    ends.set()
    assert set(await asyncio.gather(*first)) == {1}
    next_one = len(began) + 1  # the second one, unless this process stood still for so long that it has begun
    second.append(asyncio.create_task(paced()))
    *shared, last = await asyncio.gather(*second[1:])
    assert (set(shared), last) == ({2}, next_one)
    assert began[1] - began[0] >= 0.3
    await asyncio.sleep(0.4)
    number, started = len(began), time.monotonic()
    assert await paced() == number + 1
    assert began[number] - started < 0.2  # at once: the last one is long ago


@in_loop
async def test_a_rendering_that_fails_does_not_stop_the_next_one():
    run = AsyncMock(side_effect=[ValueError("a fault"), 7])
    paced = Paced(run, 0.0)
    with pytest.raises(ValueError, match="a fault"):
        await paced()
    assert await paced() == 7


MAX_RUN_SERIES = 420
MAX_SERIES = 76_000
"""What docs/observe.md says about a run that has rewards of every task, and about a service of 128 such runs."""


def fill(metrics: Metrics, routes: set[str], statuses: set[int]) -> None:
    """Count at least one response of every task in every run, and a request of every route and status."""
    rng = np.random.default_rng(1)
    for name in ["", "other", *(f"run {k}" for k in range(MAX_RUNS + 20))]:
        run = metrics.runs.label(name)
        for code, task in enumerate(REWARD_TASKS):
            scores = Scores.zeros(np.full(6, code, np.uint8), np.zeros(6, np.int64))
            scores.rewards[:] = rng.normal(size=6)
            scores.reason_codes[:] = rng.integers(0, len(reward_of(task).reasons), 6)
            metrics.counting(scores, 0, StageTimes(), run)()
    metrics.waits.observe(1.0)
    for route in routes:
        for status in statuses:
            metrics.requests.observe(0.1, route, str(status))


def test_the_number_of_series_has_a_bound():
    """The maximum of `max_runs` named runs with every task, and every status on every route."""
    routes = {path for path, _ in add_routes(FastAPI(), ServiceState(Config()), About(Config()))} | {"unmatched"}
    statuses = {200, 499} | {kind.status for kind in KINDS.values()}
    assert ServerSettings.model_fields["max_runs"].metadata[1].le == MAX_RUNS
    metrics = metrics_of()
    fill(metrics, routes, statuses)
    table = metrics.refresh()
    for run in ("unnamed", "other", "run 0", f"run {MAX_RUNS - 1}"):
        assert sum(("run", run) in labels for _, _, labels in table.series) == MAX_RUN_SERIES
    requests = 18 * len(routes) * len(statuses)
    assert len(table.series) - (MAX_RUNS + 2) * MAX_RUN_SERIES - requests < 200  # of the service as a whole
    assert 0.95 * MAX_SERIES < len(table.series) < MAX_SERIES
    before = len(table.series)
    fill(metrics, routes, statuses)
    metrics.counting(Scores.zeros(np.zeros(2, np.uint8), np.zeros(2, np.int64)), 0, StageTimes(), "one more name")()
    assert len(metrics.refresh().series) == before

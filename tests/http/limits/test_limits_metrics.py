"""Clients that ask for /metrics in a loop, without a key, beside one that scores."""

from __future__ import annotations

import statistics
import time
from typing import NamedTuple

import orjson
import pytest

from tests.cases.mixed import OPTIONS, columns
from tests.http.limits.posting import ATTEMPTS, JSON, Connection, connected
from tests.http.samples import PERFECT, REFERENCE
from tests.http.scrapers import scraping
from tests.servers import LiveServer, ready

SINGLE = orjson.dumps({"references": [REFERENCE], "responses": [PERFECT]})
ROUNDS = 3
SECONDS = 1.5
"""Of a measurement without scrapers, and of one with them, in each round."""


def latencies(connection: Connection, body: bytes, seconds: float) -> list[float]:
    """Send one request after the other for some time; return the milliseconds of each."""
    waits = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        status, _ = connection.score(body, JSON | {"x-assay-run": "run 0"})
        assert status == 200
        waits.append(1e3 * (time.perf_counter() - started))
    return waits


def use_runs(server: LiveServer, runs: int) -> None:
    """Give each of many training runs a reward of every task."""
    body = orjson.dumps(columns() | {"config": OPTIONS})
    with server.client() as client:
        for k in range(runs):
            headers = JSON | {"x-assay-run": f"run {k}"}
            assert client.post("/v1/score", content=body, headers=headers).status_code == 200


class Waits(NamedTuple):
    """Milliseconds of a single."""

    median: float
    p99: float


def waits_of(latencies: list[float]) -> Waits:
    return Waits(statistics.median(latencies), statistics.quantiles(latencies, n=100)[98])


def measure(server: LiveServer, body: bytes, scrapers: int, rounds: int = ROUNDS) -> tuple[Waits, Waits]:
    """Send singles without scrapers and beside them, in turns; return the waits of both."""
    alone: list[float] = []
    beside: list[float] = []
    with connected(server.url) as connection:
        latencies(connection, body, 0.3)
        for _ in range(rounds):
            alone += latencies(connection, body, SECONDS)
            with scraping(server.url, scrapers):
                beside += latencies(connection, body, SECONDS)
    first, second = waits_of(alone), waits_of(beside)
    print(
        f"\n{scrapers} scrapers: median {first.median:.2f} ms alone, {second.median:.2f} ms beside them "
        f"({second.median / first.median:.2f} times), p99 {first.p99:.1f} and {second.p99:.1f} ms, "
        f"{len(alone)} and {len(beside)} requests"
    )
    return first, second


@pytest.mark.slow
@pytest.mark.attack
def test_scrapers_in_a_loop_hardly_slow_scoring():
    """Eight clients without a key ask for /metrics without a pause, with the rewards of 32 runs and six tasks in it."""
    with ready() as server:
        use_runs(server, 32)
        for _ in range(ATTEMPTS):
            alone, beside = measure(server, SINGLE, 8)
            if beside.median < 2 * alone.median + 2 and beside.p99 < 5 * alone.p99 + 50:
                break
    assert beside.median < 2 * alone.median + 2
    assert beside.p99 < 5 * alone.p99 + 50

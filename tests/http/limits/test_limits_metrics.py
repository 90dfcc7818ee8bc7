"""Clients that ask for /metrics in a loop, without a key, beside one that scores."""

from __future__ import annotations

import statistics
import time

import orjson
import pytest

from tests.cases.mixed import OPTIONS, columns
from tests.http.limits.posting import JSON, Connection, connected
from tests.http.samples import PERFECT, REFERENCE
from tests.http.scrapers import scraping
from tests.servers import launched

SINGLE = orjson.dumps({"references": [REFERENCE], "responses": [PERFECT]})
MIXED = orjson.dumps(columns() | {"config": OPTIONS})
ROUNDS = 3


def latencies(connection: Connection, seconds: float = 1.5) -> list[float]:
    """Send one request after the other for some time; return the milliseconds of each."""
    waits = []
    end = time.perf_counter() + seconds
    while (started := time.perf_counter()) < end:
        assert connection.score(SINGLE)[0] == 200
        waits.append(1e3 * (time.perf_counter() - started))
    return waits


@pytest.mark.attack
@pytest.mark.parametrize(
    ("workers", "scrapers", "runs"),
    [(1, 8, 32), pytest.param(1, 64, 128, marks=pytest.mark.slow), pytest.param(2, 64, 128, marks=pytest.mark.slow)],
)
def test_scrapers_in_a_loop_hardly_slow_scoring(workers, scrapers, runs):
    """Clients without a key ask for /metrics without a pause, with the rewards of many runs and six tasks in it."""
    flags = ("--workers", str(workers), "--max-runs", str(runs), "--drain-seconds", "0")
    alone: list[float] = []
    beside: list[float] = []
    with launched(*flags) as server:
        server.wait_until_ready()
        with connected(server.url) as connection:
            for k in range(runs):
                assert connection.score(MIXED, JSON | {"x-assay-run": f"run {k}"})[0] == 200
            latencies(connection, 0.3)
            for _ in range(ROUNDS):
                alone += latencies(connection)
                with scraping(server.url, scrapers):
                    beside += latencies(connection)
    (median, p99), (median_beside, p99_beside) = (
        (statistics.median(waits), statistics.quantiles(waits, n=100)[98]) for waits in (alone, beside)
    )
    print(
        f"\n{workers} workers, {runs} runs, {scrapers} scrapers: median {median:.2f} ms alone, {median_beside:.2f} ms "
        f"beside them, p99 {p99:.1f} and {p99_beside:.1f} ms"
    )
    assert median_beside < 2 * median + 2
    assert p99_beside < 5 * p99 + 100

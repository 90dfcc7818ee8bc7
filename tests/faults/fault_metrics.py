"""/metrics with the greatest number of runs, and many clients that ask in a loop: exact, and scoring continues."""

from __future__ import annotations

import time

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.cases.mixed import ROWS
from tests.http.limits.test_limits_metrics import SINGLE, measure, use_runs
from tests.servers import LiveServer, ready

MAX_RUNS = 128


def totals(server: LiveServer) -> dict[str, float]:
    """Return the rewards counted for each run, of all tasks."""
    sums: dict[str, float] = {}
    with server.client() as client:
        reply = client.get("/metrics")
    assert reply.status_code == 200
    for family in parse_text(reply.text):
        for sample in family.samples:
            if sample.name == "assay_reward_count":
                sums[sample.labels["run"]] = sums.get(sample.labels["run"], 0) + sample.value
    return sums


@pytest.mark.soak
@pytest.mark.attack
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("scrapers", [8, 64])
@pytest.mark.parametrize("runs", [32, MAX_RUNS])
def test_scrapers_hardly_slow_scoring(workers, scrapers, runs):
    """Clients without a key ask for /metrics without a pause, with the rewards of many runs and six tasks in it."""
    with ready("--workers", str(workers), "--max-runs", str(runs)) as server:
        use_runs(server, runs)
        print(f"\n{workers} workers, {runs} runs", end="")
        alone, beside = measure(server, SINGLE, scrapers)
        before = totals(server)
        assert {run: count for run, count in before.items() if run.startswith("run ") and run != "run 0"} == {
            f"run {k}": len(ROWS) for k in range(1, runs)
        }
        time.sleep(1.1)
        started = time.monotonic()
        assert totals(server) == before
        print(f"one scrape {time.monotonic() - started:.2f} s")
    assert beside.median < 2 * alone.median + 2
    assert beside.p99 < 5 * alone.p99 + 100

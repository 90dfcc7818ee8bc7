"""A worker that is killed, and one that is stopped, under load: bounded loss, which the client's retries cover."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import suppress
from urllib.parse import urlsplit

import orjson
import pytest

from assay import Scorer
from assay_client import Client
from examples.rollouts import as_request, generate
from tests.faults.fault_drain import portions, score_all
from tests.faults.storm import gauges
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

IN_FLIGHT = 8
TIMEOUT = 3.0
"""Seconds of silence after which a worker is replaced, in these tests."""


@pytest.fixture
def fleet():
    with launched("--workers", "2", "--drain-seconds", "0.5", "--worker-timeout-seconds", str(TIMEOUT)) as server:
        server.wait_until_ready()
        wait_for_workers(server)
        yield server


def wait_for_workers(server: LiveServer) -> float:
    """Seconds until both are ready."""
    started = time.monotonic()
    while time.monotonic() < started + 120:
        with suppress(Exception):
            if gauges(server)["assay_workers_ready"] == 2:
                return time.monotonic() - started
        time.sleep(0.05)
    raise AssertionError(server.log)


def pids(server: LiveServer) -> list[int]:
    found = [int(pid) for pid in re.findall(r"worker \d+ \(pid (\d+)\) is ready", server.log)]
    return [pid for pid in found if os.path.exists(f"/proc/{pid}")]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_client_with_retries_loses_nothing(fleet, number):
    step = as_request(generate(400, 5, 3))
    expected = Scorer().score(step["responses"], step["references"], step["reference_index"]).rewards.tolist()
    (victim, _) = pids(fleet)
    lost: list[float] = []
    with Client(base_url=fleet.url, timeout=240) as client:
        found = score_all(client, step, lambda: lost.append(harm(victim, number)), 6)
    wait_for_workers(fleet)
    print(f"\n{number.name}: all answered; both workers ready again within {time.monotonic() - lost[0]:.1f} s")
    assert found == [[expected[k] for k in rows] for _ in range(6) for rows in portions(step)]
    assert victim not in pids(fleet)


def harm(pid: int, number: int) -> float:
    os.kill(pid, number)
    return time.monotonic()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_without_retries_the_loss_is_bounded(fleet, number, singles, rewards):
    """What was in flight on that worker, and what reached it until the kernel had taken it out or it was missed."""
    import http.client

    failures: list[tuple[float, str]] = []
    ended = threading.Event()
    answered = [0]
    harmed = [0.0]
    address = urlsplit(fleet.url)

    def run(first: int) -> None:
        k = first
        while not ended.is_set():
            body = orjson.dumps(singles[k % len(singles)])
            client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
            try:
                client.request("POST", "/v1/score", body, {"content-type": "application/json"})
                assert orjson.loads(client.getresponse().read())["rewards"] == [rewards[k % len(singles)]]
                answered[0] += 1
            except (OSError, http.client.HTTPException) as error:
                failures.append((time.monotonic() - harmed[0], repr(error)))
            finally:
                client.close()
            k += 1

    threads = [threading.Thread(target=run, args=(k,)) for k in range(IN_FLIGHT)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    (victim, _) = pids(fleet)
    harmed[0] = harm(victim, number)
    time.sleep(TIMEOUT + 4)
    ended.set()
    for thread in threads:
        thread.join()
    wait_for_workers(fleet)
    last = max((moment for moment, _ in failures), default=0.0)
    print(f"\n{number.name}: {answered[0]} answered, {len(failures)} lost, the last {last:.2f} s after")
    assert len(failures) <= 2 * IN_FLIGHT  # each client at most twice: its next connection may still come too early
    assert last < (TIMEOUT + 3 if number == signal.SIGSTOP else 1)
    assert answered[0] > 100

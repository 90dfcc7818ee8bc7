"""Ten thousand single calls at once: each gets its own answer, for few requests, connections and threads."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay_client import Client, Score
from tests.clients.fault_server import FaultServer, http, scores
from tests.own_process import printed

CALLS = 10_000
MAX_BATCH = 512
THREADS = 256
MAX_PEAK = 10_000
"""Bytes of memory per call that waits, with its task and its result."""
MAX_GROWTH = 10_000_000
"""Bytes by which three more rounds of calls may grow the process; each round needs more than this."""


def echo(connection: Any, request: Any) -> bool:
    """Give each response the number that it contains as its reward."""
    asked = request.document
    reply = scores(asked) | {"rewards": [float(response) for response in asked["responses"]]}
    connection.sendall(http(200, json.dumps(reply).encode(), {"X-Request-ID": request.headers["x-request-id"]}))
    return True


@pytest.fixture
def echoing(faults: FaultServer) -> FaultServer:
    faults.otherwise = echo
    return faults


def check(outcomes: list[Score], echoing: FaultServer) -> None:
    """Check that every call has had its own answer, and has been sent once."""
    assert [score.reward for score in outcomes] == list(map(float, range(CALLS)))
    assert sum(len(request.document["responses"]) for request in echoing.requests) == CALLS


ROUNDS = """
import asyncio, gc, sys, threading
from assay_client import AsyncClient

url, calls = sys.argv[1], int(sys.argv[2])

def memory(name):
    gc.collect()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) * 1024

async def run():
    used = []
    async with AsyncClient(base_url=url, timeout=60) as client:
        for _ in range(5):
            scores = await asyncio.gather(*(client.score_one(str(k), f"r{k % 7}") for k in range(calls)))
            assert [score.reward for score in scores] == list(map(float, range(calls)))
            del scores
            assert not client._coalescer._open
            assert threading.active_count() == 1
            used.append(memory("VmRSS"))
        assert not client._coalescer._tasks
    return used

before = memory("VmRSS")
used = asyncio.run(run())
print(used[-1] - used[1], memory("VmHWM") - before)
"""


@pytest.mark.attack
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_on_an_event_loop(echoing: FaultServer) -> None:
    """Ten thousand calls in one turn of the loop, five times: answers, memory, threads, requests and connections."""
    growth, peak = map(int, printed(ROUNDS, echoing.url, CALLS).split())
    assert sum(len(request.document["responses"]) for request in echoing.requests) == 5 * CALLS
    assert CALLS / MAX_BATCH <= len(echoing.requests) / 5 <= 4 * CALLS / MAX_BATCH
    assert echoing.connections <= 64
    assert growth < MAX_GROWTH
    assert peak < MAX_PEAK * CALLS


@pytest.mark.attack
def test_of_many_threads(echoing: FaultServer) -> None:
    """Ten thousand calls of 256 threads: of each window, only the first one needs a connection."""
    with Client(base_url=echoing.url, timeout=60) as client, ThreadPoolExecutor(THREADS) as threads:
        check(list(threads.map(lambda k: client.score_one(str(k), f"r{k % 7}"), range(CALLS))), echoing)
        assert not client._coalescer._open
    assert echoing.connections <= THREADS / 2

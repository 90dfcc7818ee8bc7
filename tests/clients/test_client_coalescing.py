"""Concurrent single calls share requests, and each gets its own result or error, also ten thousand at once."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay_client import AsyncClient, Client, InvalidReference, ServiceError, TooLarge, Unavailable
from tests.clients.fault_server import (
    CONFIG_ID,
    FaultServer,
    Request,
    answer,
    held,
    http,
    replying,
    reward_of,
    scores,
    status,
)
from tests.own_process import printed


def together(n: int) -> dict[str, Any]:
    """Return settings with which n calls fill a request, even if a busy machine makes them slowly."""
    return {"window": 30.0, "max_batch": n, "backoff": 0.01}


def calls(n: int) -> list[tuple[str, str]]:
    return [("x" * k, f"r{k % 3}") for k in range(n)]


def rewards(n: int) -> list[float]:
    return [reward_of(response) for response, _ in calls(n)]


def test_concurrent_calls_share_a_request(face: Any, faults: FaultServer) -> None:
    """A full batch does not wait for the end of the window."""
    started = time.monotonic()
    outcomes = face(base_url=faults.url, **together(8)).together(calls(16))
    assert time.monotonic() - started < 25
    assert [score.reward for score in outcomes] == rewards(16)
    assert {(score.config_id, score.signature) for score in outcomes} == {(CONFIG_ID, "SCORE|v:0")}
    assert [len(request.document["responses"]) for request in faults.requests] == [8, 8]
    for request in faults.requests:
        references = request.document["references"]
        assert len(references) == len(set(references)) <= 3


def test_a_window_of_zero_sends_each_separately(face: Any, faults: FaultServer) -> None:
    outcomes = face(base_url=faults.url, window=0).together(calls(6), config={"order": "lcs"})
    assert [score.reward for score in outcomes] == rewards(6)
    assert [request.document["config"] for request in faults.requests] == [{"order": "lcs"}] * 6


def test_bad_references_fail_their_own_callers_only(face: Any, faults: FaultServer) -> None:
    mixed = [(response, "BROKEN" if k % 4 == 1 else reference) for k, (response, reference) in enumerate(calls(12))]
    outcomes = face(base_url=faults.url, **together(12)).together(mixed, record="row 9")
    for k, outcome in enumerate(outcomes):
        if k % 4 == 1:
            assert isinstance(outcome, InvalidReference)
            assert str(outcome).startswith("record row 9: reference: bad_step_json (no JSON)")
            assert outcome.status == 422
        else:
            assert outcome.reward == reward_of(mixed[k][0])
    assert [len(request.document["responses"]) for request in faults.requests] == [12, 9]


def test_more_bad_references_than_an_error_lists(face: Any, faults: FaultServer) -> None:
    many = [("x", f"BROKEN {k}") for k in range(130)] + [("xx", "r")]
    outcomes = face(base_url=faults.url, **together(131)).together(many)
    assert [type(outcome) for outcome in outcomes[:130]] == [InvalidReference] * 130
    assert outcomes[130].reward == 0.002
    assert [len(request.document["responses"]) for request in faults.requests] == [131, 31, 1]


def test_a_batch_that_is_too_large_is_halved(face: Any, faults: FaultServer) -> None:
    def at_most_three(connection: Any, request: Any) -> bool:
        return (answer if len(request.document["responses"]) <= 3 else status(413))(connection, request)

    faults.otherwise = at_most_three
    outcomes = face(base_url=faults.url, **together(10)).together(calls(10))
    assert [score.reward for score in outcomes] == rewards(10)
    faults.otherwise = status(413)
    assert {type(outcome) for outcome in face(base_url=faults.url, **together(3)).together(calls(3))} == {TooLarge}


def test_any_other_error_fails_the_whole_batch(face: Any, faults: FaultServer) -> None:
    faults.otherwise = status(500)
    outcomes = face(base_url=faults.url, **together(5)).together(calls(5))
    assert [type(outcome) for outcome in outcomes] == [ServiceError] * 5
    assert len({id(outcome) for outcome in outcomes}) == 5
    assert len(faults.requests) == 1


def test_each_caller_of_a_batch_ends_by_its_own_deadline(faults: FaultServer) -> None:
    released = threading.Event()
    faults.otherwise = held(released)

    async def overdue(client: AsyncClient, timeout: float) -> float:
        started = time.monotonic()
        with pytest.raises(Unavailable, match="within the deadline"):
            await client.score_one(f"{timeout}", "r", timeout=timeout)
        return time.monotonic() - started - timeout

    async def run() -> list[float]:
        async with AsyncClient(base_url=faults.url, window=0.3, timeout=60) as client:
            patient, cancelled = (asyncio.ensure_future(client.score_one("xx", "r")) for _ in range(2))
            late = asyncio.gather(*(overdue(client, timeout) for timeout in (2.0, 0.01, 1.7)))
            while len(faults.requests) < 3 and not late.done():  # all that are sent
                await asyncio.sleep(0.01)
            cancelled.cancel()
            outcomes = await late
            assert cancelled.cancelled()
            released.set()
            assert (await patient).reward == 0.002
        return outcomes

    assert min(asyncio.run(run())) >= 0.0
    sent = [request.document["responses"] for request in faults.requests]
    assert ["xx", "xx"] in sent
    assert ["0.01"] not in sent, "its deadline ended before the window closed"


def test_a_leader_with_less_time_does_not_wait_for_the_others(faults: FaultServer) -> None:
    released = threading.Event()
    faults.otherwise = held(released)
    with Client(base_url=faults.url, window=0.1) as client, ThreadPoolExecutor(2) as threads:
        hasty = threads.submit(client.score_one, "x", "r", timeout=0.5)
        patient = threads.submit(client.score_one, "xx", "r")
        assert isinstance(hasty.exception(), Unavailable)
        released.set()
        assert patient.result().reward == 0.002


def test_an_interrupted_leader_does_not_leave_the_others_waiting(
    faults: FaultServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    client = Client(base_url=faults.url, **together(3))
    monkeypatch.setattr(client, "_scores", interrupted)
    with ThreadPoolExecutor(3) as threads:
        calls = [threads.submit(client.score_one, "x", "r") for _ in range(3)]
        outcomes = sorted(type(call.exception(25)).__name__ for call in calls)
    assert outcomes == ["KeyboardInterrupt", "Unavailable", "Unavailable"]


CALLS = 10_000
MAX_BATCH = 512
THREADS = 256
MAX_PEAK = 10_000
"""Bytes of memory per call that waits, with its task and its result."""
MAX_GROWTH = 10_000_000
"""Bytes by which three more rounds of calls may grow the process; each round needs more than this."""


@pytest.fixture
def echoing(faults: FaultServer) -> FaultServer:
    """Give each response the number that it contains as its reward."""

    def echo(request: Request) -> bytes:
        asked = request.document
        reply = scores(asked) | {"rewards": [float(response) for response in asked["responses"]]}
        return http(200, json.dumps(reply).encode(), {"X-Request-ID": request.headers["x-request-id"]})

    faults.otherwise = replying(echo)
    return faults


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
        scores = list(threads.map(lambda k: client.score_one(str(k), f"r{k % 7}"), range(CALLS)))
        assert not client._coalescer._open
    assert [score.reward for score in scores] == list(map(float, range(CALLS)))
    assert sum(len(request.document["responses"]) for request in echoing.requests) == CALLS
    assert echoing.connections <= THREADS / 2

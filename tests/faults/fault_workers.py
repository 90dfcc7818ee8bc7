"""A worker that is killed, and one that is stopped, under load: bounded loss, which the client's retries cover."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import orjson
import pytest

from assay_client import Client
from tests.faults.steps import check_step
from tests.faults.storm import fetch, request
from tests.http.process.watching import wait_for_workers, workers_of
from tests.servers import launched

pytestmark = [
    pytest.mark.attack,
    pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name),
]
IN_FLIGHT = 8
TIMEOUT = 3.0
"""Seconds of silence after which a worker is replaced, in these tests."""


@pytest.fixture
def fleet():
    with launched("--workers", "2", "--drain-seconds", "0.5", "--worker-timeout-seconds", str(TIMEOUT)) as server:
        wait_for_workers(server, 2)
        yield server


def test_a_client_with_retries_loses_nothing(fleet, number):
    victim = workers_of(fleet)[0]
    lost: list[float] = []

    def harm() -> None:
        os.kill(victim, number)
        lost.append(time.monotonic())

    with Client(base_url=fleet.url, timeout=240) as client:
        check_step(client, harm, 6)
    wait_for_workers(fleet, 3)
    print(f"\n{number.name}: all answered; both workers ready again within {time.monotonic() - lost[0]:.1f} s")
    assert victim not in workers_of(fleet)


def test_without_retries_the_loss_is_bounded(fleet, number, singles, rewards):
    """What was in flight on that worker, and what reached it until the kernel had taken it out or it was missed."""
    bodies = [request(orjson.dumps(single)) for single in singles]
    victim = workers_of(fleet)[0]
    harmed_at = time.monotonic() + 1
    failures: list[float] = []
    answered = [0]

    async def run(k: int) -> None:
        while time.monotonic() < harmed_at + TIMEOUT + 4:
            answer = await fetch(fleet.url, bodies[k % len(bodies)], 30)
            if answer.status:
                assert answer.json()["rewards"] == [rewards[k % len(rewards)]]
                answered[0] += 1
            else:
                failures.append(time.monotonic() - harmed_at)
            k += 1

    def harm() -> None:
        nonlocal harmed_at
        os.kill(victim, number)
        harmed_at = time.monotonic()

    async def run_all() -> None:
        asyncio.get_running_loop().call_later(1, harm)
        await asyncio.gather(*map(run, range(IN_FLIGHT)))

    asyncio.run(run_all())
    wait_for_workers(fleet, 3)
    last = max(failures, default=0.0)
    print(f"\n{number.name}: {answered[0]} answered, {len(failures)} lost, the last {last:.2f} s after")
    assert len(failures) <= 2 * IN_FLIGHT  # each client at most twice: its next connection may still come too early
    assert last < (TIMEOUT + 3 if number == signal.SIGSTOP else 1)
    assert answered[0] > 100

"""The threads for batches: permits are returned, and abandoned jobs do not start."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from assay.service.http.request.exchange import ClientGone
from assay.service.http.request.intake import WorkerThreads
from assay.service.http.wire.headers import Problem, StageTimes


class Waiting:
    """Stands for an exchange whose client stays until `leave` is set."""

    max_queue_seconds = None
    permit: Any = None

    def __init__(self, short: bool = False, left: float = 30) -> None:
        self.short = short
        self.deadline = Left(left)
        self.times = StageTimes()
        self.leave = asyncio.Event()

    async def wait_for_disconnect(self) -> None:
        await self.leave.wait()


class Left:
    """Stands for a deadline in `left` seconds."""

    def __init__(self, left: float) -> None:
        self.left = left


@pytest.fixture
def workers():
    """Start one thread with a queue of two."""
    workers = WorkerThreads(1, 2)
    yield workers
    workers.close()
    end = time.monotonic() + 10
    while workers.unfinished and time.monotonic() < end:  # close does not wait for the running job
        time.sleep(0.01)
    assert workers.unfinished == 0


async def occupied(workers: WorkerThreads, release: threading.Event) -> asyncio.Task[bool]:
    """Start a job that occupies the only thread until `release` is set."""
    begun = threading.Event()

    def hold() -> bool:
        begun.set()
        return release.wait(30)

    task = asyncio.create_task(workers.run(hold, Waiting()))
    await asyncio.to_thread(begun.wait)
    return task


def test_a_job_returns_its_result_and_its_wait_is_measured(workers):
    async def scenario():
        exchange, release = Waiting(), threading.Event()
        first = await occupied(workers, release)
        second = asyncio.create_task(workers.run(lambda: threading.current_thread().name, exchange))
        await asyncio.sleep(0.05)
        release.set()
        assert await first
        assert (await second).startswith("assay-score")
        assert 0.04 < exchange.times.queue < 5

    asyncio.run(scenario())


def test_the_error_of_a_job_is_raised(workers):
    def broken():
        raise LookupError

    async def scenario():
        with pytest.raises(LookupError):
            await workers.run(broken, Waiting())

    asyncio.run(scenario())


def test_a_queued_job_past_its_deadline_never_starts(workers):
    begun = threading.Event()

    async def scenario():
        release = threading.Event()
        first = await occupied(workers, release)
        with pytest.raises(Problem) as raised:
            await workers.run(begun.set, Waiting(left=0.02))
        assert raised.value.kind == "deadline"
        assert workers.unfinished == 1
        release.set()
        await first
        await workers.run(lambda: None, Waiting())

    asyncio.run(scenario())
    assert not begun.is_set()


def test_a_queued_job_whose_client_disconnects_never_starts(workers):
    begun = threading.Event()

    async def scenario():
        release, exchange = threading.Event(), Waiting()
        first = await occupied(workers, release)
        asyncio.get_running_loop().call_later(0.02, exchange.leave.set)
        with pytest.raises(ClientGone):
            await workers.run(begun.set, exchange)
        release.set()
        await first
        await workers.run(lambda: None, Waiting())

    asyncio.run(scenario())
    assert not begun.is_set()


def test_a_running_job_past_its_deadline_frees_its_thread_when_it_ends(workers):
    async def scenario():
        release = threading.Event()
        with pytest.raises(Problem):
            await workers.run(lambda: release.wait(30), Waiting(left=0.02))
        assert workers.unfinished == 1
        release.set()
        await workers.run(lambda: None, Waiting())

    asyncio.run(scenario())


def test_a_short_body_does_not_wait_for_batches(workers):
    async def scenario():
        release = threading.Event()
        first = await occupied(workers, release)
        name = await workers.run(lambda: threading.current_thread().name, Waiting(short=True))
        assert name.startswith("assay-short")
        release.set()
        await first

    asyncio.run(scenario())


def test_a_thread_does_not_start_a_job_past_its_deadline(workers):
    begun = threading.Event()

    async def scenario():
        class Passing(Left):
            """Passes between the submission of the job and its start."""

            @property
            def left(self) -> float:
                return 30.0 if threading.current_thread() is threading.main_thread() else 0.0

            @left.setter
            def left(self, value: float) -> None:
                pass

        exchange = Waiting()
        exchange.deadline = Passing(0)
        with pytest.raises(Problem) as raised:
            await workers.run(begun.set, exchange)
        assert raised.value.kind == "deadline"

    asyncio.run(scenario())
    assert not begun.is_set()


def test_an_abandoned_job_keeps_its_permit_until_it_ends(workers):
    class Counted:
        holders = 1

        def hold(self) -> None:
            self.holders += 1

        def release(self) -> None:
            self.holders -= 1

    async def scenario():
        release, exchange = threading.Event(), Waiting(left=0.02)
        exchange.permit = Counted()
        with pytest.raises(Problem):
            await workers.run(lambda: release.wait(30), exchange)
        assert exchange.permit.holders == 2
        release.set()
        await workers.run(lambda: None, Waiting())
        await asyncio.sleep(0.05)
        assert exchange.permit.holders == 1

    asyncio.run(scenario())


def test_a_full_queue_refuses(workers):
    async def scenario():
        release = threading.Event()
        first = await occupied(workers, release)
        queued = [asyncio.create_task(workers.run(lambda: 1, Waiting())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            await workers.run(lambda: 1, Waiting())
        assert raised.value.status == 429
        assert (b"retry-after", b"1") in raised.value.headers
        release.set()
        assert await asyncio.gather(first, *queued) == [True, 1, 1]

    asyncio.run(scenario())

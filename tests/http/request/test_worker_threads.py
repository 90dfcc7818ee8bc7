"""The threads for batches: permits are returned, and abandoned jobs do not start."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import asynccontextmanager

import pytest

from assay.service.http.request.admission import Budget, Permit, Replies, ReplyShare
from assay.service.http.request.exchange import ClientGone, Deadline
from assay.service.http.request.worker_threads import WorkerThreads
from assay.service.wire.problems import Problem
from tests.http.request.exchanges import FakeExchange, in_loop


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


@asynccontextmanager
async def occupied(workers: WorkerThreads):
    """Run a job that occupies the only thread until the end of the block."""
    begun, release = threading.Event(), threading.Event()

    def hold() -> bool:
        begun.set()
        return release.wait(30)

    task = asyncio.create_task(workers.run(hold, FakeExchange()))
    await asyncio.to_thread(begun.wait)
    yield
    release.set()
    assert await task


def name_of_thread() -> str:
    return threading.current_thread().name


@in_loop
async def test_a_job_returns_its_result_and_its_wait_is_measured(workers):
    exchange = FakeExchange()
    async with occupied(workers):
        second = asyncio.create_task(workers.run(name_of_thread, exchange))
        await asyncio.sleep(0.05)
        assert (await workers.run(name_of_thread, FakeExchange(short=True))).startswith("assay-short")
    assert (await second).startswith("assay-score")
    assert 0.04 < exchange.times.queue < 5


@pytest.mark.parametrize("ending", ["deadline", "disconnect", "deadline in the thread"])
@in_loop
async def test_a_queued_job_that_is_abandoned_never_starts(workers, ending):
    class Passing(Deadline):
        """Passes between the submission of the job and its start."""

        @property
        def left(self) -> float:
            return 30.0 if threading.current_thread() is threading.main_thread() else 0.0

    begun, exchange = threading.Event(), FakeExchange(0.02 if ending == "deadline" else 60)
    if ending == "deadline in the thread":
        exchange.deadline = Passing(0)
        with pytest.raises(Problem, match="deadline"):
            await workers.run(begun.set, exchange)
    else:
        async with occupied(workers):
            if ending == "disconnect":
                asyncio.get_running_loop().call_later(0.02, exchange.leave)
            with pytest.raises(ClientGone if ending == "disconnect" else Problem, match=r"deadline|^$"):
                await workers.run(begun.set, exchange)
            assert workers.unfinished == 1
    await workers.run(lambda: None, FakeExchange())
    assert not begun.is_set()


@in_loop
async def test_an_abandoned_job_keeps_its_permit_and_its_thread_until_it_ends(workers):
    budget, begun, release, exchange = Budget(100), threading.Event(), threading.Event(), FakeExchange()
    permit = exchange.permit = Permit(budget)
    budget.arrive(permit, 10)
    running = asyncio.create_task(workers.run(lambda: begun.set() or release.wait(30), exchange))
    await asyncio.to_thread(begun.wait)
    exchange.leave()
    with pytest.raises(ClientGone):
        await running
    permit.release()
    assert (workers.unfinished, budget.in_use) == (1, 10)
    release.set()
    await workers.run(lambda: None, FakeExchange())
    await asyncio.sleep(0.05)
    assert budget.in_use == 0


@in_loop
async def test_a_full_queue_refuses(workers):
    async with occupied(workers):
        queued = [asyncio.create_task(workers.run(lambda: 1, FakeExchange())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Problem) as raised:
            await workers.run(lambda: 1, FakeExchange())
        assert raised.value.status == 429
        assert (b"retry-after", b"1") in raised.value.headers
        patient = asyncio.create_task(workers.run(lambda: 2, FakeExchange(max_queue_seconds=10)))
    assert await asyncio.gather(*queued, patient) == [1, 1, 2]


@in_loop
async def test_a_reply_waits_for_room_and_gives_it_back(workers):
    replies = Replies(100)
    first, second = FakeExchange(), FakeExchange()
    first.share, second.share = ReplyShare(replies), ReplyShare(replies)
    await workers.run(lambda: first.reserve_reply(80), first)
    waiting = asyncio.create_task(workers.run(lambda: second.reserve_reply(30), second))
    while not replies.full:
        await asyncio.sleep(0.01)
    assert replies.in_use == 80
    first.share.keep(60)  # the reply is shorter than it might have been
    await waiting
    assert (replies.in_use, replies.full) == (90, False)
    for exchange in (first, second):
        exchange.share.release()
    await asyncio.sleep(0)
    assert replies.in_use == 0


@in_loop
async def test_a_reply_without_room_ends_with_its_request(workers):
    replies = Replies(100)
    held = ReplyShare(replies)
    held.keep(100)
    late, gone = FakeExchange(0.2), FakeExchange()
    late.share, gone.share = ReplyShare(replies), ReplyShare(replies)
    with pytest.raises(Problem) as raised:
        await workers.run(lambda: late.reserve_reply(1), late)
    assert raised.value.kind == "deadline"
    late.share.release()
    abandoned = asyncio.create_task(workers.run(lambda: gone.reserve_reply(1), gone))
    while not replies.full:
        await asyncio.sleep(0.01)
    gone.leave()
    with pytest.raises(ClientGone):
        await abandoned
    gone.share.release()  # as the middleware does
    while workers.unfinished:
        await asyncio.sleep(0.01)
    assert (replies.in_use, replies.full) == (100, False)


def test_a_single_reply_may_exceed_the_capacity():
    replies = Replies(100)
    share = ReplyShare(replies)
    share.reserve(150, FakeExchange().deadline)
    assert replies.full
    share.release()
    assert replies.in_use == 0

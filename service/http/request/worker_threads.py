"""Threads that score long bodies, with a bounded queue, and how many short ones the event loop scores in one turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from threading import Lock
from time import perf_counter, sleep
from typing import TypeVar

from ...scoring.stopping import StopFlag
from ...wire.problems import Problem
from ...wire.stage_times import StageTimes
from .exchange import ClientGone, Deadline, Exchange, deadline_exceeded

T = TypeVar("T")
POLL_SECONDS = 0.01


class WorkerThreads:
    """A fixed number of threads with a bounded queue, and one for short compressed bodies, which no batch delays."""

    def __init__(self, threads: int, max_queued: int, paused: Callable[[], bool] = lambda: False) -> None:
        """Start no job while `paused` returns True."""
        self._paused = paused
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="assay-score")
        self._short = ThreadPoolExecutor(1, thread_name_prefix="assay-short")
        self._lock = Lock()
        self._capacity = threads + max_queued
        self.unfinished = 0
        """Jobs that run or wait."""

    async def run(self, job: Callable[[], T], exchange: Exchange, until: Deadline | None = None) -> T:
        """Return the job's result, or raise its error.

        until: a deadline earlier than the request's. Raise Problem `over-capacity` if the queue is full, Problem
        `deadline`, and ClientGone: then a queued job is cancelled, and a running job is stopped.
        """
        deadline, stop = until or exchange.deadline, StopFlag()
        submitted = self._submit(job, exchange, deadline, stop)
        work = asyncio.wrap_future(submitted)
        gone = asyncio.ensure_future(exchange.wait_for_disconnect())
        try:
            await asyncio.wait((work, gone), timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise ClientGone if gone.done() else deadline_exceeded()
        finally:
            gone.cancel()
            stop.set()
            submitted.cancel()  # at once: `work` would cancel it only in the next turn
            work.cancel()
            del submitted, work  # they hold the error, whose traceback holds this frame and the body

    def _submit(self, job: Callable[[], T], exchange: Exchange, deadline: Deadline, stop: StopFlag) -> Future[T]:
        with self._lock:
            if self.unfinished >= self._capacity and exchange.max_queue_seconds is None:
                raise Problem("over-capacity", "The queue of batches is full.")
            self.unfinished += 1
        submitted, loop = perf_counter(), asyncio.get_running_loop()
        shares = [share for share in (exchange.permit, exchange.open_share()) if share is not None]

        def timed() -> T:
            while self._paused() and deadline.left and not stop.is_set:
                sleep(POLL_SECONDS)
            exchange.times.queue += perf_counter() - submitted
            if not deadline.left:
                raise deadline_exceeded()
            if stop.is_set:
                raise ClientGone
            return stop.run(job)

        def finished(_job: object) -> None:
            with self._lock:
                self.unfinished -= 1
            with suppress(RuntimeError):  # the loop is closed: the process is ending
                for share in shares:
                    loop.call_soon_threadsafe(share.release)

        for share in shares:
            share.hold()  # until the job is done, even if it is abandoned before: until then it uses memory
        future = (self._short if exchange.short else self._pool).submit(timed)
        future.add_done_callback(finished)
        return future

    def close(self) -> None:
        """Accept no more jobs and drop queued jobs, without waiting for running jobs."""
        for pool in (self._short, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)


MAX_PER_TURN = 64
TURN_SECONDS = 0.02
"""Maximum number of short requests, and time, that the event loop spends on scoring before it looks at all connections
again. A probe on a new connection takes about five turns."""


class LoopBudget:
    """Limits how many short requests the event loop scores in one turn, and for how long.

    Otherwise a burst would take one turn of seconds, without accepting connections or answering probes. The others wait
    in order for the next turn, which wakes a few more of them than the last turn has scored.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._until = 0.0
        self._scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, times: StageTimes) -> None:
        if self._waiting or (self._taken and not self._has_room()):
            await self._wait(times)
        if not self._taken:
            self._until = perf_counter() + TURN_SECONDS
            self._schedule()
        self._taken += 1

    def _has_room(self) -> bool:
        return not self._taken or (self._taken < MAX_PER_TURN and perf_counter() < self._until)

    async def _wait(self, times: StageTimes) -> None:
        started = perf_counter()
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._waiting.append(place)
        try:
            await place
            while not self._has_room():
                self._waiting[self._waiting.index(place)] = place = loop.create_future()
                await place
        finally:
            self._waiting.remove(place)
            times.queue += perf_counter() - started

    def _next(self) -> None:
        self._scheduled = False
        scored, self._taken = self._taken, 0
        for place in islice(self._waiting, min(MAX_PER_TURN, 2 * scored + 1)):
            if not place.done():
                place.set_result(None)
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

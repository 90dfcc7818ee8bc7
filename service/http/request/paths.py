"""Where a request is handled: on the event loop, or in threads.

| body                        | path                | where                                       |
|-----------------------------|---------------------|---------------------------------------------|
| short JSON, common form     | fast path           | event loop, two kernel calls                |
| short JSON, any other form  | general path        | event loop                                  |
| short JSON with `configs`   | general path        | worker thread                               |
| long, compressed, or Arrow  | general path        | worker thread, kernels on all threads       |
| short rows of other tasks   | rewards of the task | event loop (`wire/parts.py`)                |
| other rows of other tasks   | rewards of the task | separate process                            |
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from time import perf_counter, sleep
from typing import TypeVar

from ...rewards.scorer import Scorer
from ..wire.headers import Problem
from ..wire.json_codec import FastPath, Limits
from .exchange import ClientGone, Deadline, Exchange, HeldBytes, Readiness, deadline_exceeded

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
        `deadline`, and ClientGone: then a queued job is cancelled, and the result of a running job is dropped.
        """
        deadline = until or exchange.deadline
        submitted = self._submit(job, exchange, deadline)
        work = asyncio.wrap_future(submitted)
        gone = asyncio.ensure_future(exchange.wait_for_disconnect())
        try:
            await asyncio.wait((work, gone), timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            raise ClientGone if gone.done() else deadline_exceeded()
        finally:
            gone.cancel()
            submitted.cancel()  # at once: `work` would cancel it only in the next turn
            work.cancel()
            del submitted, work  # they hold the error, whose traceback holds this frame and the body

    def _submit(self, job: Callable[[], T], exchange: Exchange, deadline: Deadline) -> Future[T]:
        with self._lock:
            if self.unfinished >= self._capacity and exchange.max_queue_seconds is None:
                raise Problem("over-capacity", "The queue of batches is full.")
            self.unfinished += 1
        submitted = perf_counter()

        def timed() -> T:
            while self._paused() and deadline.left:
                sleep(POLL_SECONDS)
            exchange.times.queue += perf_counter() - submitted
            if not deadline.left:
                raise deadline_exceeded()
            return job()

        future = (self._short if exchange.short else self._pool).submit(timed)
        future.add_done_callback(self._finished)
        if exchange.permit is not None:
            hold_until_done(exchange.permit, future)
        return future

    def _finished(self, _future: object) -> None:
        with self._lock:
            self.unfinished -= 1

    def close(self) -> None:
        """Accept no more jobs and drop queued jobs, without waiting for running jobs."""
        for pool in (self._short, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)


def hold_until_done(permit: HeldBytes, job: Future[T]) -> None:
    """Hold the permit until the job is done, even if it was abandoned: until then it uses memory."""
    loop = asyncio.get_running_loop()

    def release(_job: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process is ending
            loop.call_soon_threadsafe(permit.release)

    permit.hold()
    job.add_done_callback(release)


class Paths:
    """The scorer of the default configuration, and the threads that it runs on."""

    def __init__(self, limits: Limits, readiness: Readiness, workers: WorkerThreads) -> None:
        self.limits = limits
        self._readiness = readiness
        self._workers = workers
        self._scorer: Scorer | None = None
        self.fast_path: FastPath
        """For the event loop's thread; set once the service is ready."""

    @property
    def scorer(self) -> Scorer:
        """The scorer of the default configuration; raises Problem `not-ready` until it is available."""
        self._readiness.check()
        assert self._scorer is not None
        return self._scorer

    def open(self, scorer: Scorer, inline_bytes: int) -> None:
        """Set the scorer, and score bodies below `inline_bytes` on the event loop."""
        self.fast_path = FastPath(scorer, inline_bytes, self.limits)
        self._scorer = scorer

    async def answer(self, exchange: Exchange, fast: Callable[[], T | None], general: Callable[[], T]) -> T:
        """Choose the path of a request; `fast` returns None for a request that only `general` can answer."""
        if not exchange.request_body.inline:
            return await self._workers.run(general, exchange)
        result = fast()
        return general() if result is None else result

    async def answer_in_thread(self, exchange: Exchange, general: Callable[[], T]) -> T:
        return await self._workers.run(general, exchange)

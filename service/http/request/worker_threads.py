"""Threads that score batches, so that the event loop goes on answering while they do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from time import perf_counter, sleep
from typing import TypeVar

from ..wire.problems import Problem
from .deadline import Deadline, deadline_exceeded
from .exchange import ClientGone, Exchange, Permit

__all__ = ["WorkerThreads"]

T = TypeVar("T")

HELD_BACK_SECONDS = 0.01
"""Time between two looks at whether jobs may begin."""


class WorkerThreads:
    """A fixed number of threads and a bounded queue before them. Kernels release the interpreter lock.

    Short bodies that need a thread (compressed ones) have one of their own, so that no batch can hold them up.
    """

    def __init__(self, threads: int, max_queued: int, held_back: Callable[[], bool] = lambda: False) -> None:
        """While `held_back` says so, no job begins."""
        self._held_back = held_back
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="assay-score")
        self._short = ThreadPoolExecutor(1, thread_name_prefix="assay-short")
        self._lock = Lock()
        self._most = threads + max_queued
        self._unfinished = 0

    @property
    def unfinished(self) -> int:
        """Jobs that run or wait."""
        return self._unfinished

    async def run(self, job: Callable[[], T], exchange: Exchange) -> T:
        """The job's result, or what it raised.

        Raises Problem `over-capacity` where the queue is full, Problem `deadline`, and ClientGone: a job that has not
        begun by then never begins; one that runs is left to its end, and its result is dropped.
        """
        deadline = exchange.deadline
        submitted = self._submit(job, exchange, deadline)
        work = asyncio.wrap_future(submitted)
        gone = asyncio.ensure_future(exchange.until_gone())
        try:
            done, _ = await asyncio.wait((work, gone), timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                return work.result()
            raise ClientGone if gone in done else deadline_exceeded()
        finally:
            gone.cancel()
            submitted.cancel()  # at once: the loop's own future would tell it only in its next turn
            work.cancel()

    def _submit(self, job: Callable[[], T], exchange: Exchange, deadline: Deadline) -> Future[T]:
        with self._lock:
            if self._unfinished >= self._most and exchange.max_queue_seconds is None:
                raise Problem("over-capacity", "Too many batches wait already.", headers=[(b"retry-after", b"1")])
            self._unfinished += 1
        submitted = perf_counter()

        def timed() -> T:
            while self._held_back() and deadline.left:
                sleep(HELD_BACK_SECONDS)
            exchange.times.queue += perf_counter() - submitted
            if not deadline.left:
                raise deadline_exceeded()
            return job()

        future = (self._short if exchange.short else self._pool).submit(timed)
        future.add_done_callback(self._finished)
        if exchange.permit is not None:
            held_by_job(exchange.permit, future)
        return future

    def _finished(self, _future: object) -> None:
        with self._lock:
            self._unfinished -= 1

    def close(self) -> None:
        """Take no more jobs and drop those that wait; nobody waits for the result of one that still runs."""
        for pool in (self._short, self._pool):
            pool.shutdown(wait=False, cancel_futures=True)


def held_by_job(permit: Permit, job: Future[T]) -> None:
    """Let the job hold the permit too: its memory is there until it ends, even where nobody waits for it any more."""
    loop = asyncio.get_running_loop()

    def release(_job: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(permit.release)

    permit.hold()
    job.add_done_callback(release)

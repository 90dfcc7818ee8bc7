"""Separate processes for jobs that would block the service, killed at their limits of time and memory.

Parsers of JSON and of programs hold the GIL, cannot be interrupted, and take many times the memory of their text. In a
separate process such a job delays neither scoring nor probes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from threading import Event, Lock
from typing import BinaryIO, NamedTuple, TypeVar

from pebble import ProcessExpired, ProcessPool

from ...errors import Issue
from ..wire.json_codec import Answer, Limits
from ..wire.other_tasks import score_others, score_pickled
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from ..wire.task_batch import Rest
from .deadline import Deadline, deadline_exceeded
from .exchange import ClientGone, Exchange
from .jobs import HEADER, Outcome, perform, prepare
from .worker_threads import WorkerThreads

__all__ = ["Processes", "memory_of"]

log = logging.getLogger("assay")

T = TypeVar("T")

_starting = Lock()

BASE_BYTES = 384 << 20
"""Maximum private memory of a process without a body; about 100 MiB of it are code and tables."""

BYTES_PER_BODY_BYTE = 6
"""Additional memory for each admitted byte of the body, as documented for `max_work_bytes`."""

MAX_KEPT_BYTES = 256 << 20
"""Maximum memory of a process that is kept for the next job."""

POLL_SECONDS = 0.05
"""Time between two checks of a running job."""

PRELOADED = f"{__package__.partition('.request')[0]}.preloaded"
"""The module that the fork server imports once, with everything that a job needs."""


class SharedBody(NamedTuple):
    """A file in memory through which another process gets a body and returns its result."""

    file: BinaryIO

    @property
    def path(self) -> str:
        """Path of the file for another process."""
        return f"/proc/{os.getpid()}/fd/{self.file.fileno()}"

    @property
    def job_pid(self) -> int:
        """Id of the process that has read the body; 0 before."""
        return int.from_bytes(os.pread(self.file.fileno(), HEADER, 0), "little")

    def result(self) -> bytes:
        """Return the result, which has replaced the body."""
        self.file.seek(HEADER)
        return self.file.read()


Result = tuple[Outcome, bytes]


class Processes:
    """One process for long bodies and one for short ones, with the queue and interface of `WorkerThreads`.

    They are started on demand, as forks of a server that has loaded everything already. A job is a partial of a
    module-level function with the body as its first argument. It is called with the times as an additional last
    argument, and returns bytes; the function and the other arguments are pickled.
    """

    def __init__(self, max_queued: int) -> None:
        self._threads = WorkerThreads(1, max_queued)  # each thread waits for one process
        self._idle: list[ProcessPool] = []
        self._closing = Event()

    @property
    def unfinished(self) -> int:
        """Jobs that run or wait."""
        return self._threads.unfinished

    async def answer(self, function: Callable[..., bytes], exchange: Exchange, limits: Limits) -> None:
        """Reply with `function(body, encoding, limits, deadline, times)`, called in a process; raise as `run` does."""
        body = exchange.request_body
        job = partial(function, body.data, body.encoding, limits, exchange.deadline)
        await exchange.reply(await self.run(job, exchange, bytes))

    async def complete(self, rest: Rest, exchange: Exchange, limits: Limits) -> Answer:
        """Return the answer to a request whose rows of other tasks are left; raise as `run` does.

        The few of a short request are scored here at once.
        """
        if exchange.request_body.inline and rest.others.is_quick:
            times = StageTimes()
            outcomes = score_others(rest.others, limits, times)
            exchange.times.add(times)
            return rest.complete(outcomes)
        job = partial(score_pickled, rest.body, limits, exchange.deadline.check)
        return await self.run(job, exchange, rest.complete_pickled)

    async def run(self, job: partial[bytes], exchange: Exchange, complete: Callable[[bytes], T]) -> T:
        """Return `complete` of the job's result, which the thread that waits for the process calls.

        Raise the Problem that the job raised. Raise as `WorkerThreads.run` does, but kill an abandoned job. Raise
        Problem `too-large` if the job exceeds its memory limit.
        """
        charged = len(job.args[0]) if exchange.permit is None else max(len(job.args[0]), exchange.permit.nbytes)
        abandoned = Event()
        max_bytes = BASE_BYTES + BYTES_PER_BODY_BYTE * charged

        def watched() -> T | Problem:
            outcome, result = self._watch(job, max_bytes, exchange.deadline, abandoned)
            exchange.times.add(outcome.times)
            return complete(result) if outcome.error is None else outcome.error

        try:
            found = await self._threads.run(watched, exchange)
        finally:
            abandoned.set()
        if isinstance(found, Problem):
            raise copy(found)  # the pool keeps its last outcome, and errors keep the body
        return found

    def _watch(self, job: partial[bytes], max_bytes: int, deadline: Deadline, abandoned: Event) -> Result:
        """Run the job in a process; raise Problem, ClientGone if it was abandoned, and RuntimeError."""
        pool = self._acquire_pool()
        keep = False
        try:
            with share_body(job.args[0]) as body:
                future = pool.schedule(perform, (body.path, deadline.left, job.func, job.args[1:]))
                while not wait((future,), POLL_SECONDS).done:
                    deadline.check()
                    if abandoned.is_set() or self._closing.is_set():
                        raise ClientGone
                    if memory_of(body.job_pid) > max_bytes:
                        raise memory_exceeded(max_bytes)
                died = future.exception()
                keep = died is None and memory_of(body.job_pid) <= MAX_KEPT_BYTES
                result = b"" if died else body.result()
        finally:
            if keep and not self._closing.is_set():
                self._idle.append(pool)
            else:
                stop(pool)
        if died is not None:
            raise exit_error(died, max_bytes)
        outcome: Outcome = future.result()
        if outcome.out_of_memory:
            raise memory_exceeded(max_bytes)
        if outcome.traceback:
            log.error("a job failed in its process\n%s", outcome.traceback)
            raise RuntimeError("a job failed in its process")
        return outcome, result

    def _acquire_pool(self) -> ProcessPool:
        """Return a pool of one process, so that killing it harms no other job."""
        for pool in self._take_idle():
            if pool.active:
                return pool
            stop(pool)  # its process was killed while idle
        return ProcessPool(1, initializer=prepare, context=start_forkserver())

    def close(self) -> None:
        """Kill running jobs, drop queued ones, and stop the processes."""
        self._closing.set()
        self._threads.close()
        for pool in self._take_idle():
            stop(pool)

    def _take_idle(self) -> Iterator[ProcessPool]:
        with suppress(IndexError):  # another thread may take the last one at the same time
            while True:
                yield self._idle.pop()


def start_forkserver() -> ForkServerContext:
    """Start the fork server, a separate interpreter that has loaded what jobs need, and return its context.

    It runs `python -c`, which would search the current folder first: its environment gives it the path of this process
    instead.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    given = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"}
    with _starting:
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            forkserver.ensure_running()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
    return context


@contextmanager
def share_body(body: bytes | bytearray) -> Iterator[SharedBody]:
    """Share a body with another process through memory, without holding the GIL and without a pipe."""
    with open(os.memfd_create("assay-body"), "w+b") as file:
        file.write(bytes(HEADER))
        file.write(body)
        file.flush()
        yield SharedBody(file)


def memory_of(pid: int) -> int:
    """Return the private memory of a process in bytes; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def stop(pool: ProcessPool) -> None:
    """Kill the pool's process."""
    pool.stop()  # type: ignore[no-untyped-call]
    pool.join()


def exit_error(died: BaseException, max_bytes: int) -> Exception:
    """Return the error of a job whose process has died."""
    exitcode = died.exitcode if isinstance(died, ProcessExpired) else None
    if exitcode == -signal.SIGXCPU:
        return deadline_exceeded()
    if exitcode == -signal.SIGKILL:  # by the kernel's OOM killer
        return memory_exceeded(max_bytes)
    return RuntimeError(f"the process of a job ended with code {exitcode}")


def memory_exceeded(max_bytes: int) -> Problem:
    issue = Issue("body", "too_much_memory", f"needs more than {max_bytes >> 20} MiB")
    return Problem("too-large", "The request needs more memory than allowed for its length.", [issue])

"""Processes for jobs that would hold up the service: each under limits of time and memory, and killed at either.

Parsers of JSON and of programs hold the GIL for as long as they take, cannot be interrupted, and take
many times their text in memory. In a process of its own such a job costs neither scoring nor probes anything.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from copy import copy
from functools import partial
from multiprocessing import forkserver, get_context
from multiprocessing.context import ForkServerContext
from threading import Event, Lock
from typing import BinaryIO, NamedTuple

from pebble import ProcessExpired, ProcessPool

from ...errors import Issue
from ..wire.problems import Problem
from .deadline import Deadline, deadline_exceeded
from .exchange import ClientGone, Exchange
from .jobs import HEADER, Outcome, perform, prepare
from .worker_threads import WorkerThreads

__all__ = ["Processes", "memory_of"]

log = logging.getLogger("assay")

_starting = Lock()

BASE_BYTES = 384 << 20
"""Memory of its own that a process may have for a job without a body; some 100 MiB of it are code and tables."""

BYTES_A_BODY_BYTE = 6
"""What it may have on top for each byte that the body was admitted with, as `max_work_bytes` promises."""

KEPT_BYTES = 256 << 20
"""Memory beyond which a process is not kept for the next job."""

LOOK_SECONDS = 0.05
"""How often a running job is looked at."""

PRELOADED = f"{__package__.partition('.request')[0]}.preloaded"
"""The module that the server of forks imports once, with everything that a job needs."""


class Lent(NamedTuple):
    """A body where another process can take it, and leave the result."""

    file: BinaryIO

    @property
    def path(self) -> str:
        """Where that process finds it."""
        return f"/proc/{os.getpid()}/fd/{self.file.fileno()}"

    @property
    def borrower(self) -> int:
        """Process that has taken the body; 0 before."""
        return int.from_bytes(os.pread(self.file.fileno(), HEADER, 0), "little")

    def result(self) -> bytes:
        """What it has left in the body's place."""
        self.file.seek(HEADER)
        return self.file.read()


Result = tuple[Outcome, bytes]


class Processes:
    """A process for long bodies and one for short ones, with the queue and the face of `WorkerThreads`.

    They are started by the first job that needs one, as forks of a server that has loaded everything already. A job is
    a partial of a function at the top of a module, with the body for its first argument. It is called with the times
    for one argument more, and returns bytes; the function and the other arguments are pickled.
    """

    def __init__(self, max_queued: int) -> None:
        self._threads = WorkerThreads(1, max_queued)  # each of which waits for one process
        self._idle: list[ProcessPool] = []
        self._closing = Event()

    @property
    def unfinished(self) -> int:
        """Jobs that run or wait."""
        return self._threads.unfinished

    async def run(self, job: partial[bytes], exchange: Exchange) -> bytes:
        """Return the job's result, or raise the Problem that it raised.

        Raise as `WorkerThreads.run` does; but a job that nobody waits for any more is killed. Raise Problem `too-large`
        for a job that takes more memory than its body may.
        """
        charged = len(job.args[0]) if exchange.permit is None else max(len(job.args[0]), exchange.permit.nbytes)
        abandoned = Event()
        watched = partial(self._watch, job, BASE_BYTES + BYTES_A_BODY_BYTE * charged, exchange.deadline, abandoned)
        try:
            outcome, result = await self._threads.run(watched, exchange)
        finally:
            abandoned.set()
        exchange.times.take(outcome.times)
        if outcome.error is not None:
            raise copy(outcome.error)  # the pool remembers its last outcome, and errors remember the body
        return result

    def _watch(self, job: partial[bytes], most_bytes: int, deadline: Deadline, abandoned: Event) -> Result:
        """Have a process do the job; raises Problem, ClientGone where nobody waits for it, and RuntimeError."""
        pool = self._take()
        keep = False
        try:
            with lent(job.args[0]) as body:
                future = pool.schedule(perform, (body.path, deadline.left, job.func, job.args[1:]))
                while not wait((future,), LOOK_SECONDS).done:
                    deadline.check()
                    if abandoned.is_set() or self._closing.is_set():
                        raise ClientGone
                    if memory_of(body.borrower) > most_bytes:
                        raise outgrown(most_bytes)
                died = future.exception()
                keep = died is None and memory_of(body.borrower) <= KEPT_BYTES
                result = b"" if died else body.result()
        finally:
            if keep and not self._closing.is_set():
                self._idle.append(pool)
            else:
                stop(pool)
        if died is not None:
            raise fault_of(died, most_bytes)
        outcome: Outcome = future.result()
        if outcome.out_of_memory:
            raise outgrown(most_bytes)
        if outcome.stack:
            log.error("a job failed in its process\n%s", outcome.stack)
            raise RuntimeError("a job failed in its process")
        return outcome, result

    def _take(self) -> ProcessPool:
        """Return a pool of one process, so that killing it harms no other job."""
        while (pool := self._idle_one()) is not None:
            if pool.active:
                return pool
            stop(pool)  # its process was killed while it waited
        return ProcessPool(1, initializer=prepare, context=started_context())

    def close(self) -> None:
        """Kill the jobs that run, drop those that wait, and end the processes."""
        self._closing.set()
        self._threads.close()
        while (pool := self._idle_one()) is not None:
            stop(pool)

    def _idle_one(self) -> ProcessPool | None:
        """Take a pool that waits for a job: two threads may ask for the last one."""
        try:
            return self._idle.pop()
        except IndexError:
            return None


def started_context() -> ForkServerContext:
    """The server from which processes are forked, running: a fresh interpreter that has loaded what jobs need.

    It is started with `python -c`, which would look into the current folder first, for `service` too: it gets the path
    of this process instead, through its environment.
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
def lent(body: bytes | bytearray) -> Iterator[Lent]:
    """Put a body where another process can take it, without a lock of the interpreter and without a pipe."""
    with open(os.memfd_create("assay-body"), "w+b") as file:
        file.write(bytes(HEADER))
        file.write(body)
        file.flush()
        yield Lent(file)


def memory_of(pid: int) -> int:
    """Bytes of memory that a process has for itself; 0 once it has gone."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def stop(pool: ProcessPool) -> None:
    """Kill the pool's process, whatever it does."""
    pool.stop()
    pool.join()


def fault_of(died: BaseException, most_bytes: int) -> Exception:
    """What to say of a job that did not come to its end."""
    exitcode = died.exitcode if isinstance(died, ProcessExpired) else None
    if exitcode == -signal.SIGXCPU:
        return deadline_exceeded()
    if exitcode == -signal.SIGKILL:  # by the system, which is short of memory
        return outgrown(most_bytes)
    return RuntimeError(f"the process of a job ended with code {exitcode}")


def outgrown(most_bytes: int) -> Problem:
    issue = Issue("body", "too_much_memory", f"it takes more than {most_bytes >> 20} MiB")
    return Problem("too-large", "The request takes more memory than one of its length may.", [issue])

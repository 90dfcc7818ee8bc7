"""Separate processes for jobs that would block the service, killed at their limits of time and memory.

Parsers of JSON and of programs hold the GIL, cannot be interrupted, and take many times the memory of their text. In a
separate process such a job delays neither scoring nor probes. `jobs` has the other end; `fork_server` starts both.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from time import perf_counter
from typing import BinaryIO, TypeVar

from ...errors import Issue, ScoringError
from ...rewards.scoring import run_here
from ...wire.json_codec import Answer, RequestLimits
from ...wire.parts import Buffer, assemble, is_unscored, pack_parts, read_frames, read_pieces
from ...wire.problems import Problem
from ...wire.work import is_quick
from .exchange import ClientGone, Deadline, Exchange, deadline_exceeded
from .fork_server import ENDED, JOB, Forked, ForkServer, NotForked
from .jobs import DONE, OUTCOME, TAKEN, JobCall, Outcome
from .paths import PendingAnswer
from .worker_threads import WorkerThreads

log = logging.getLogger("assay")

T = TypeVar("T")
BASE_BYTES = 384 << 20
"""Maximum private memory of a process without a body; about 100 MiB of it are code and tables."""

BYTES_PER_BODY_BYTE = 6
"""Additional memory for each admitted byte of the body, as documented for `max_work_bytes`."""

MAX_KEPT_BYTES = 256 << 20
POLL_SECONDS = 0.05
END_SECONDS = 10.0
"""Maximum time that the kernel takes to end a killed process."""

ATTEMPTS = 5
"""How often a job is given to a process before it gets 503: one that was killed while idle took nothing, and a killed
fork server ends all its processes."""

RESERVE = 0.1
MAX_RESERVE_SECONDS = 1.0
"""Share of a request's time, and its maximum, between the end of the job and of the wait for its reply, and between
the end of that wait and the deadline."""


class NotTaken(NotForked):
    """A process ended before it took the job, or with its fork server: another process can do the job."""


class Killed(NotTaken):
    """A signal ended the process in the middle of the job: another process may do the job, once."""


@dataclass(frozen=True)
class Reply:
    """The complete frames of a job's result, and its error, if any."""

    frames: Sequence[bytes]
    error: Problem | None


class JobProcess:
    def __init__(self, forked: Forked) -> None:
        self.forked = forked
        self._poller = select.poll()
        self._poller.register(forked.channel, select.POLLIN)
        self._poller.register(forked.descriptor, select.POLLIN)

    def begin(self, request: BinaryIO, reply: BinaryIO) -> None:
        """Give it a job; raise NotTaken if it has ended."""
        try:
            socket.send_fds(self.forked.channel, [JOB], [request.fileno(), reply.fileno()])
        except OSError:
            raise NotTaken from None

    def next_event(self, seconds: float) -> bytes:
        """Return TAKEN, DONE or ENDED; nothing if none of them happens in this time."""
        if not self._poller.poll(1e3 * seconds):
            return b""
        message = self.forked.receive()
        return message if message in (TAKEN, DONE) else ENDED

    def kill(self) -> None:
        self.forked.send_signal(signal.SIGKILL)
        if not self.forked.ends(END_SECONDS):
            log.error("the process of a job (pid %d) does not end", self.forked.pid)
        self.forked.close()


class Processes:
    """A process for long bodies and one for short ones, started on demand, with the queue of `WorkerThreads`."""

    def __init__(self, max_queued: int, server: ForkServer) -> None:
        self._threads = WorkerThreads(1, max_queued)  # each thread waits for one process
        self._server = server
        self._idle: list[JobProcess] = []
        self._closing = Event()

    @property
    def unfinished(self) -> int:
        return self._threads.unfinished

    async def answer(self, job: str, exchange: Exchange, limits: RequestLimits, **arguments: object) -> None:
        """Reply with the result of the job for the body of the request; raise as `run` does."""
        body = exchange.request_body
        call = new_call(job, exchange.deadline, limits, body.encoding, arguments)
        await exchange.reply(await self.run(call, lambda: [body.data], exchange, reply_body))

    async def complete(
        self, pending: PendingAnswer, exchange: Exchange, limits: RequestLimits, *, partial: bool = False
    ) -> Answer:
        """Return the answer to a request whose rows of other tasks are left; raise as `run` does.

        The few rows of a short request are scored here at once. partial: if there is not enough time, rows that are not
        scored get the reason `out_of_time`, so that the rows of SCORE keep their rewards. A request without rows of
        SCORE is then over its deadline, and so is one that waits for the fork server to load: that costs no reward.
        """
        partial = partial and pending.scoring.has_rewards and self._server.loaded
        parts = pending.scoring.left
        if exchange.request_body.inline and is_quick(parts):
            exchange.times.start()
            outcomes = run_here(parts)
            exchange.times.scored()
            return pending.complete(outcomes)

        def pack() -> Sequence[Buffer]:
            return pack_parts(parts)

        def completed(reply: Reply) -> Answer:
            if reply.error is not None and not (partial and reply.error.kind == "deadline"):
                raise reply.error
            outcomes = assemble(parts, read_pieces(parts, reply.frames))
            left_out = any(map(is_unscored, parts, outcomes))
            left_out = left_out and not any(isinstance(outcome, ScoringError) for outcome in outcomes)
            if left_out and reply.error is None:
                raise RuntimeError("a job has left out rows")
            return pending.complete(outcomes)

        deadline = exchange.deadline
        if not partial:
            return await self.run(new_call("reward", deadline, limits), pack, exchange, completed)
        reserve = min(MAX_RESERVE_SECONDS, RESERVE * deadline.left)
        call = new_call("reward", deadline.earlier(2 * reserve), limits)
        try:
            return await self.run(call, pack, exchange, completed, deadline.earlier(reserve))
        except Problem as problem:
            if problem.kind != "deadline":
                raise
        return pending.complete(assemble(parts, []))

    async def run(
        self,
        call: JobCall,
        pack: Callable[[], Sequence[Buffer]],
        exchange: Exchange,
        complete: Callable[[Reply], T],
        until: Deadline | None = None,
    ) -> T:
        """Return `complete` of the job's reply; the thread that waits for the process calls `pack` and `complete`.

        pack: returns the parts of the body. The job is killed at its deadline, `call.deadline`; `until` is the later
        moment at which even its reply is no longer waited for, by default the deadline of the request. Raise as
        `WorkerThreads.run` does, but kill an abandoned job. The reply's error is `too-large` if the job exceeds its
        memory limit.
        """
        abandoned = Event()
        admitted = 0 if exchange.permit is None else exchange.permit.nbytes

        def watched() -> T | Problem:
            body = pack()
            max_bytes = BASE_BYTES + BYTES_PER_BODY_BYTE * max(admitted, sum(map(len, body)))
            reply, outcome = self._watch(call, body, max_bytes, abandoned, exchange.reserve_reply)
            if outcome is not None:
                exchange.times.add(outcome.times)
            try:
                return complete(reply)
            except Problem as problem:
                return problem.with_traceback(None)  # its frames hold the body, and the reply holds the problem

        try:
            result = await self._threads.run(watched, exchange, until)
        finally:
            abandoned.set()
        if isinstance(result, Problem):
            raise result.copy()  # the thread keeps its last result, and errors keep the body
        return result

    def _watch(
        self,
        call: JobCall,
        body: Sequence[Buffer],
        max_bytes: int,
        abandoned: Event,
        reserve: Callable[[int], None] = lambda _: None,
    ) -> tuple[Reply, Outcome | None]:
        """Run the job in a process; take another one if the first was killed or ended before it took the job.

        reserve: waits until a reply of so many bytes may be read from the process's file.
        """
        killed = False
        for _ in range(ATTEMPTS):
            try:
                with memory_file("assay-request") as request, memory_file("assay-reply") as reply:
                    request.write(call.model_dump_json().encode() + b"\n")
                    for part in body:
                        request.write(part)
                    request.flush()
                    error = self._run_once(call, request, reply, max_bytes, abandoned, last=killed)
                    reserve(os.fstat(reply.fileno()).st_size)
                    return read_reply(reply, error, max_bytes)
            except NotForked as lost:
                killed = killed or isinstance(lost, Killed)
            except OSError as error:
                log.error("a process for a job cannot be started: %s", error.strerror or error)
                break
        raise Problem("not-ready", "The service cannot start a process for this request now.")

    def _run_once(
        self, call: JobCall, request: BinaryIO, reply: BinaryIO, max_bytes: int, abandoned: Event, *, last: bool
    ) -> Problem | None:
        """Run the job in a process; return its error; raise NotForked, OSError, and ClientGone if it was abandoned.

        last: return the error of a process that a signal ended, instead of raising Killed.
        """
        process = self._acquire()
        keep = False
        try:
            process.begin(request, reply)
            taken = False
            deadline = call.deadline
            while (event := process.next_event(POLL_SECONDS)) != DONE:
                taken = taken or event == TAKEN
                if event == ENDED:
                    code = process.forked.exit_code
                    if not taken or code is None:
                        raise NotTaken
                    if code < 0 and code != -signal.SIGXCPU and not last:
                        raise Killed
                    return exit_error(code, max_bytes)
                if abandoned.is_set() or self._closing.is_set():
                    raise ClientGone
                if not deadline.left:
                    return deadline_exceeded()
                if memory_of(process.forked.pid) > max_bytes:
                    return memory_exceeded(max_bytes)
            keep = memory_of(process.forked.pid) <= MAX_KEPT_BYTES
        finally:
            if keep and not self._closing.is_set():
                self._idle.append(process)
            else:
                process.kill()
        return None

    def _acquire(self) -> JobProcess:
        with suppress(IndexError):  # another thread may take the last process at the same time
            return self._idle.pop()
        return JobProcess(self._server.fork())

    def close(self) -> None:
        self._closing.set()
        self._threads.close()
        with suppress(IndexError):
            while True:
                self._idle.pop().kill()


def new_call(
    job: str,
    deadline: Deadline,
    limits: RequestLimits,
    encoding: bytes = b"",
    arguments: Mapping[str, object] | None = None,
) -> JobCall:
    moment = perf_counter() + deadline.left
    return JobCall(job=job, moment=moment, limits=limits, encoding=encoding.decode(), arguments=dict(arguments or {}))


def memory_file(name: str) -> BinaryIO:
    return open(os.memfd_create(name), "w+b")


def read_reply(file: BinaryIO, error: Problem | None, max_bytes: int) -> tuple[Reply, Outcome | None]:
    """Return the reply of a job, and its outcome unless it was killed; raise RuntimeError if it failed."""
    file.seek(0)
    frames = list(read_frames(file))
    result = [frame for kind, frame in frames if kind != OUTCOME]
    if error is not None:
        return Reply(result, error), None
    outcome = Outcome.model_validate_json(frames[-1][1])
    if outcome.traceback:
        log.error("a job failed in its process\n%s", outcome.traceback)
        raise RuntimeError("a job failed in its process")
    if outcome.out_of_memory:
        error = memory_exceeded(max_bytes)
    elif outcome.refusal is not None:
        error = outcome.refusal.problem()
    return Reply(result, error), outcome


def reply_body(reply: Reply) -> bytes:
    if reply.error is not None:
        raise reply.error
    return reply.frames[0] if len(reply.frames) == 1 else b"".join(reply.frames)


def memory_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def exit_error(code: int, max_bytes: int) -> Problem:
    """Return the error of a job whose process has died with this code; raise RuntimeError if it failed."""
    if code == -signal.SIGXCPU:
        return deadline_exceeded()
    if code == -signal.SIGKILL:  # for the second time: by the kernel's OOM killer
        return memory_exceeded(max_bytes)
    raise RuntimeError(f"the process of a job ended with code {code}")


def memory_exceeded(max_bytes: int) -> Problem:
    issue = Issue("body", "too_much_memory", f"needs more than {max_bytes >> 20} MiB")
    return Problem("too-large", "The request needs more memory than allowed for its length.", [issue])

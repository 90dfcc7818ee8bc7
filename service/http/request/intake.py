"""Intake of a request: its route and key, its body, and where it is handled.

| body                        | path                | where                                       |
|-----------------------------|---------------------|---------------------------------------------|
| short JSON, common form     | fast path           | event loop, two kernel calls                |
| short JSON, any other form  | general path        | event loop                                  |
| short JSON, more work       | general path        | worker thread                               |
| long, compressed, or Arrow  | general path        | worker thread, kernels on all threads       |
| short rows of other tasks   | rewards of the task | event loop (`wire/parts.py`)                |
| other rows of other tasks   | rewards of the task | separate process                            |

More work are many rows, `configs`, and alternatives; see `wire/work.py`, which also says what is short.

In this order: deadline, readiness, media type, query, encoding, and the body, which is counted while it arrives (see
`admission.py`). Every route that takes a body has an `Intake`, whose result is `exchange.request_body`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from threading import Lock
from time import perf_counter, sleep
from typing import Any, NamedTuple, TypeVar

from fastapi.routing import APIRoute
from starlette.types import Message, Receive, Scope, Send

from ...config import ServerSettings
from ...errors import Issue, ScoringError
from ...rewards.batch import Batch
from ...rewards.scorer import Scorer
from ...rewards.scores import Scores
from ...rewards.scoring import Outcome, Scoring
from ...scoring.stopping import StopFlag
from ..wire.headers import JSON, Body, Problem, StageTimes, check_encoding, invalid_request, media_type_of, too_large
from ..wire.json_codec import Answer, FastPath, Limits
from ..wire.parts import UnlistedError
from ..wire.work import is_light
from .access import Keys
from .admission import Admission
from .exchange import (
    CONNECTION,
    EXCHANGE,
    ClientGone,
    Deadline,
    Exchange,
    Readiness,
    deadline_exceeded,
    deadline_of,
    read_run,
)

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

    async def answer(self, exchange: Exchange, inline: Callable[[], T | None], general: Callable[[], T]) -> T:
        """Answer a light body with `inline`, on the event loop, and any other with `general`, in a thread.

        inline: returns None for a request that turns out to be more work than the event loop should do.
        """
        result = inline() if exchange.request_body.inline else None
        return await self._workers.run(general, exchange) if result is None else result


COMPRESSED = 4
"""Bytes charged per compressed byte: protocols compress to a third or a quarter. The number of threads bounds bodies
that expand more: a thread decompresses one body at a time."""


def refuse_query(exchange: Exchange, media_type: bytes) -> None:
    query = exchange.scope["query_string"]
    if query and media_type == JSON and query.strip(b"&"):
        issue = Issue("query", "unknown_field", "settings of a JSON request belong in its body")
        raise Problem("invalid-request", "JSON requests take no query parameters.", [issue])


@dataclass
class Intake:
    settings: ServerSettings
    readiness: Readiness
    admission: Admission
    _: KW_ONLY
    media_types: tuple[bytes, ...] = (JSON,)
    max_bytes: int = sys.maxsize
    """The limit of this route, besides the server's `max_body_bytes`."""
    check_query: Callable[[Exchange, bytes], None] = refuse_query
    """Called with the media type before the body is read, if there is a query; raises Problem."""
    named_runs: bool = False
    """True if requests may name their run (see `read_run`), which `check_query` and the endpoint do not see."""

    def __post_init__(self) -> None:
        self.max_bytes = min(self.max_bytes, self.settings.max_body_bytes)

    async def take(self, exchange: Exchange) -> Body:
        """Read the body of a request once the service is ready and admits it; raise Problem and ClientGone."""
        head, query = exchange.raw_headers, exchange.scope["query_string"]
        max_seconds = exchange.max_queue_seconds or self.settings.deadline_seconds
        deadline = exchange.deadline = deadline_of(exchange.started, head.get(b"x-request-timeout"), max_seconds)
        if self.readiness.starting and exchange.max_queue_seconds is not None:
            await self.readiness.wait_until_started(deadline.left)
        self.readiness.check()
        media_type = media_type_of(head.get(b"content-type", b""), self.media_types)
        if self.named_runs and (query or b"x-assay-run" in head):
            self._take_run(exchange, media_type)
        if query:
            self.check_query(exchange, media_type)
        encoding = head.get(b"content-encoding", b"")
        if encoding:
            encoding = check_encoding(encoding)
        data = await self._read(exchange, compressed=bool(encoding))
        inline = not encoding and media_type == JSON and is_light(data, self.settings.inline_bytes)
        if inline:
            deadline.check()
        return Body(data, encoding, media_type, inline)

    def _take_run(self, exchange: Exchange, media_type: bytes) -> None:
        """Set the run of the exchange, and remove it from the query; raise Problem with every error of the query."""
        scope = exchange.scope
        header = exchange.raw_headers.get(b"x-assay-run")
        exchange.run, scope["query_string"], issues = read_run(header, scope["query_string"])
        if issues:
            exchange.run = ""
            try:
                self.check_query(exchange, media_type)
            except Problem as problem:
                issues += problem.issues
            raise invalid_request(issues)

    async def _read(self, exchange: Exchange, compressed: bool) -> bytes | bytearray:
        """Return the body as it was sent, once it is admitted.

        Raise Problem `too-large` and `over-capacity` as soon as possible, before the first byte if Content-Length says
        so. The server discards the rest of a refused body: closing the connection instead could lose the reply.
        """
        length = exchange.raw_headers.get(b"content-length", b"")
        declared = int(length) if length.isdigit() else 0
        if declared > self.max_bytes:
            raise too_large(self.max_bytes)
        admission, left = self.admission, self.settings.body_seconds
        weight = COMPRESSED if compressed else 1
        if declared >= admission.short:
            exchange.short = False
            await admission.admit(exchange, weight * declared)
        connection = exchange.scope.get(CONNECTION)
        body = bytearray()
        while True:
            if connection is not None and connection.has_message(exchange.receive_message):
                message = await exchange.receive_message()  # the usual case of short bodies: needs no timer
            else:
                started = perf_counter()
                message = await receive(exchange, left)
                left -= perf_counter() - started
            if message["type"] == "http.disconnect":
                raise ClientGone
            part: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            total = len(body) + len(part)
            if total > self.max_bytes:
                raise too_large(self.max_bytes)
            if more or body or total >= admission.short:  # not one message that is scored at once
                await admission.charge(exchange, len(part), total, declared or self.max_bytes, more, weight)
            if not more:
                break
            body += part
        if exchange.short:
            await admission.loop_budget.take(exchange.times)
        if not body:
            return part
        body += part
        return body


async def receive(exchange: Exchange, seconds: float) -> Message:
    """Return the next message; raise Problem `too-slow` after `seconds` or if the permit says so, and `deadline`."""
    permit, until_deadline = exchange.permit, exchange.deadline.left
    try:
        async with asyncio.timeout(min(seconds, until_deadline)) as timer:
            if permit is not None:
                permit.timer = timer
            return await exchange.receive_message()
    except TimeoutError:
        if permit is not None and permit.too_slow:
            raise too_slow("The body arrives too slowly, while others wait.") from None
        raise (too_slow() if seconds < until_deadline else deadline_exceeded()) from None
    finally:
        if permit is not None:
            permit.timer = None


def too_slow(detail: str = "The body did not arrive in time.") -> Problem:
    return Problem("too-slow", detail, headers=[(b"connection", b"close")])


def refused(issues: Sequence[Issue], unlisted: int) -> Exception:
    return invalid_request(issues, len(issues) + unlisted)


class PendingAnswer(NamedTuple):
    """A request whose rows of SCORE are scored; `complete` it with the outcomes of the parts that are left."""

    scoring: Scoring
    encode: Callable[[Scores], bytes]
    times: StageTimes
    refuse: Callable[[Sequence[Issue], int], Exception]
    """Makes the error of a bad batch from its issues and the number of issues that are not listed."""
    reserve: Callable[[], None]
    """Waits until the reply may be computed."""

    def complete(self, outcomes: Sequence[Outcome] = ()) -> Answer:
        """Return the answer; raise the error of the request with every issue."""
        self.times.start()
        try:
            scores = self.scoring.complete(outcomes)
        except ScoringError as error:
            unlisted = sum(outcome.unlisted for outcome in outcomes if isinstance(outcome, UnlistedError))
            raise self.refuse(error.issues, unlisted) from None
        if self.scoring.left:
            self.reserve()
        reply = self.encode(scores)
        self.times.encoded()
        return Answer(reply, scores)


def begin(
    batch: Batch,
    encode: Callable[[Scores], bytes],
    times: StageTimes,
    refuse: Callable[[Sequence[Issue], int], Exception] = refused,
    reserve: Callable[[], None] = lambda: None,
) -> PendingAnswer | Answer:
    """Score the rows that kernels score; return the answer, or what is left of it."""
    scoring = Scoring(batch)
    if not scoring.left:
        reserve()
    scoring.start()
    if not scoring.failed:
        times.scored()
    pending = PendingAnswer(scoring, encode, times, refuse, reserve)
    return pending if scoring.left else pending.complete()


GUARDED = ("/v1/", "/compat/")
"""Prefixes of the paths that need a key if keys are configured."""

PROBES = ("/compat/nemo-gym",)
"""Exceptions: trainers check there whether the service is up."""

MAX_QUEUE_SECONDS = {"/compat/openrlhf": 170.0, "/compat/slime": 110.0, "/compat/nemo-gym": 600.0}
"""Seconds that requests to these paths, and below them, may queue instead of being refused; also their deadline. It is
just under the timeout of the trainer's client: OpenRLHF gives up after 180 s, and after five refusals one second
apart continues without a reward, ignoring `Retry-After`; slime waits 120 s; NeMo Gym has no limit, and a refusal ends
its run."""


class DirectRoute(APIRoute):
    """A route that FastAPI describes but does not call: its dependency solving costs more than scoring one response."""

    intake: Intake | None = None
    """Reads the bodies of requests; None for routes that take no body."""
    keys: Keys | None = None
    """The accepted keys; None for routes that need no key."""
    traced = True
    """False for probes and metrics, which are called every few seconds: most spans would come from them."""
    models: tuple[Any, ...] = ()
    """The models of requests and replies, or unions of them, whose schemas belong to the OpenAPI document."""

    def __init__(self, path: str, endpoint: Any, **description: Any) -> None:
        super().__init__(path, endpoint, **description)
        limits = (seconds for base, seconds in MAX_QUEUE_SECONDS.items() if is_below(path, base))
        self.max_queue_seconds = next(limits, None)
        self.app = self.serve

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, read the body, and call the endpoint with the exchange."""
        exchange = scope[EXCHANGE]
        if self.keys is not None:
            self.keys.check(exchange)
        if self.max_queue_seconds is not None:
            exchange.max_queue_seconds = self.max_queue_seconds
        if self.intake is not None:
            exchange.request_body = await self.intake.take(exchange)
        await self.endpoint(exchange)


def is_below(path: str, base: str) -> bool:
    return path == base or path.startswith(f"{base}/")


def is_guarded(path: str) -> bool:
    return path.startswith(GUARDED) and path not in PROBES

"""One request: its trace, deadline, exchange and reply."""

from __future__ import annotations

import math
import re
import secrets
from asyncio import Timeout
from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Protocol

from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, format_span_id, format_trace_id, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ...errors import Issue
from ...wire.media_types import JSON, PROBLEM_JSON, Body
from ...wire.problems import Problem
from ...wire.stage_times import StageTimes
from .readiness import Readiness

MAX_TRACEPARENT_BYTES = 512
"""Maximum length of a `traceparent`; the propagator would log a warning if it were longer."""

PROPAGATOR = TraceContextTextMapPropagator()


def parent_context(traceparent: bytes) -> Context:
    """Return the context of the client's span; an empty one if the header is missing or invalid."""
    if len(traceparent) > MAX_TRACEPARENT_BYTES:
        return Context()
    return PROPAGATOR.extract({"traceparent": traceparent.decode("latin-1")}, Context())


def continue_trace(traceparent: bytes) -> SpanContext | None:
    """Return a new span in the trace that a `traceparent` continues; None if it is invalid."""
    parent = get_current_span(parent_context(traceparent)).get_span_context()
    if not parent.is_valid:
        return None
    return SpanContext(parent.trace_id, secrets.randbits(64) or 1, is_remote=False, trace_flags=parent.trace_flags)


def format_traceparent(span: SpanContext) -> bytes:
    return f"00-{format_trace_id(span.trace_id)}-{format_span_id(span.span_id)}-{span.trace_flags:02x}".encode("ascii")


class Deadline:
    """A point in time of `perf_counter`. (uvloop's clock does not advance within a turn of its loop.)"""

    __slots__ = ("_moment",)

    def __init__(self, moment: float) -> None:
        self._moment = moment

    @property
    def left(self) -> float:
        return max(0.0, self._moment - perf_counter())

    def earlier(self, seconds: float) -> Deadline:
        return Deadline(self._moment - seconds)

    def check(self) -> None:
        if perf_counter() >= self._moment:
            raise deadline_exceeded()


def deadline_of(started: float, timeout: bytes | None, max_seconds: float) -> Deadline:
    """Return the deadline, earlier if the header `X-Request-Timeout` says so; raise Problem if that is invalid."""
    if timeout is None:
        return Deadline(started + max_seconds)
    try:
        seconds = float(timeout)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        issue = Issue("X-Request-Timeout", "invalid_header", "a number of seconds above 0")
        raise Problem("invalid-request", "The header X-Request-Timeout is not a number of seconds.", [issue])
    return Deadline(started + min(seconds, max_seconds))


def deadline_exceeded() -> Problem:
    return Problem("deadline", "The deadline passed before the request was scored; no result was kept.")


EXCHANGE = "assay.exchange"
CONNECTION = "assay.connection"
"""Key of the connection in the scope of a request, if `process/connection.py` serves it."""

OK = 200
LONG_REPLY = 1 << 16
"""Bytes above which a reply to a short body is refused while too many replies are unread."""


class ClientGone(Exception):
    """The client disconnected before its reply was ready."""


class HeldBytes(Protocol):
    nbytes: int
    timer: Timeout | None
    too_slow: bool

    def hold(self) -> None: ...
    def release(self) -> None: ...


class ReservedBytes(Protocol):
    def hold(self) -> None: ...
    def release(self) -> None: ...
    def reserve(self, nbytes: int, deadline: Deadline) -> None: ...
    def keep(self, nbytes: int) -> None: ...


class ReplyBytes(Protocol):
    @property
    def replies_full(self) -> bool: ...
    def over_capacity(self) -> Problem: ...
    def reply_share(self) -> ReservedBytes: ...


class Exchange(Request):
    """A request with its id, times and reply; a Starlette request only so that FastAPI recognizes the parameter."""

    permit: HeldBytes | None = None
    """The request's share of the byte budget; the middleware releases it."""
    reply_share: ReservedBytes | None = None
    """The reply's share of the budget for replies, if it has one; the middleware releases it."""
    max_queue_seconds: float | None = None
    """Seconds that requests to this route may queue; None for routes that refuse at once."""
    short = True
    """True for a short body, which batches must not delay."""
    span: SpanContext | None = None
    """The service's span, if the client's request is part of a trace or the service exports traces."""
    run = ""
    deadline: Deadline
    """Set by the intake of routes that take a body."""
    request_body: Body
    """Set by routes that take a body (see `intake.py`)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, readiness: Readiness, replies: ReplyBytes) -> None:
        super().__init__(scope, receive, send)
        self.receive_message = receive
        self.send_message = send
        self._readiness = readiness
        self._replies = replies
        self.raw_headers: dict[bytes, bytes] = dict(scope["headers"])
        """The head, read once: values by lower-case name."""
        self.request_id = request_id(self.raw_headers.get(b"x-request-id"))
        if b"traceparent" in self.raw_headers:
            self.span = continue_trace(self.raw_headers[b"traceparent"])
        self.times = StageTimes()
        self.started = perf_counter()
        self.status = 0

    async def reply(
        self, body: bytes, media_type: bytes = JSON, status: int = OK, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        """Send the complete reply, with the headers of every reply.

        Return once the socket has accepted all of it; until then the request keeps its permit. Raise ClientGone if the
        client has disconnected before, and Problem `over-capacity` for a long reply to a short body while too many
        replies are unread.
        """
        unadmitted = len(body) > LONG_REPLY and self.short and self.max_queue_seconds is None
        if unadmitted and status == OK and self._replies.replies_full:
            raise self._replies.over_capacity()
        self.status = status
        lines = [
            (b"content-type", media_type),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", self.request_id),
            *self.times.header(),
            *headers,
        ]
        if self.span is not None:
            lines.append((b"traceparent", format_traceparent(self.span)))
        connection = self.scope.get(CONNECTION)
        if self._readiness.draining and not (connection is not None and connection.pipelined):
            lines.append((b"connection", b"close"))
        if connection is None:
            await self.send_message({"type": "http.response.start", "status": status, "headers": lines})
            await self.send_message({"type": "http.response.body", "body": body})
            return
        if connection.write_paused:  # the previous reply is not read yet
            await connection.drain()
        waited = not self.short or self.times.queue > 0  # so long that the client may have disconnected
        if not connection.send_whole(self.send_message, status, lines, body, waited):
            raise ClientGone
        paused = connection.write_paused
        if self.reply_share is not None or paused:
            self.open_share().keep(len(body))
        if paused:
            await connection.drain()
            if connection.reply_lost:
                raise ClientGone

    def open_share(self) -> ReservedBytes:
        """Return the reply's share, which at first has no bytes."""
        if self.reply_share is None:
            self.reply_share = self._replies.reply_share()
        return self.reply_share

    def reserve_reply(self, nbytes: int) -> None:
        """Wait until a reply of at most `nbytes` may be computed; call it in a job, and on the event loop for nothing.

        Raise Problem `deadline` or ClientGone if that happens first.
        """
        if self.reply_share is not None:
            self.reply_share.reserve(nbytes, self.deadline)

    async def reply_problem(self, problem: Problem) -> None:
        document = problem.document(self.request_id.decode("ascii"))
        await self.reply(document, PROBLEM_JSON, problem.status, problem.headers)

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Set a callback for when the client disconnects, even while its body is not being read; None to remove it."""
        connection = self.scope.get(CONNECTION)
        if connection is not None:
            connection.on_disconnect = callback

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects. Call it only after the body is read."""
        while (await self.receive_message())["type"] != "http.disconnect":
            pass


REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_process = secrets.token_hex(8)
_numbers = count(1)


def request_id(header: bytes | None) -> bytes:
    """Return the client's request id if it is valid, else a new one."""
    if header is not None and REQUEST_ID.fullmatch(header):
        return header
    return f"{_process}-{next(_numbers):x}".encode("ascii")

"""One exchange: a request and its reply, directly on ASGI messages."""

from __future__ import annotations

import re
import secrets
from asyncio import Timeout
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Protocol

from opentelemetry.trace import SpanContext
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..wire.compression import Body
from ..wire.problems import MEDIA_TYPE as PROBLEM
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from .deadline import Deadline
from .readiness import Readiness
from .trace_context import continue_trace, format_traceparent

__all__ = ["CONNECTION", "EXCHANGE", "ClientGone", "Exchange"]

EXCHANGE = "assay.exchange"
CONNECTION = "assay.connection"
"""Key of the connection in the scope of a request, if `process/connection.py` serves it."""

JSON = b"application/json"
OK = 200
LONG_REPLY = 1 << 16
"""Bytes above which a reply to a short body is refused while too many replies are unread."""

REQUEST_ID = re.compile(rb"[!-~]{1,128}")
_process = secrets.token_hex(8)
_numbers = count(1)


class ClientGone(Exception):
    """The client disconnected before its reply was ready."""


class HeldBytes(Protocol):
    nbytes: int
    timer: Timeout | None
    too_slow: bool

    def grow(self, nbytes: int, *, patient: bool = False) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...


class ReplyBytes(Protocol):
    @property
    def replies_full(self) -> bool: ...
    def over_capacity(self) -> Problem: ...
    async def count_unread(self, nbytes: int, drained: Awaitable[None]) -> None: ...


class Exchange(Request):
    """A request with its id, times and reply; a Starlette request only so that FastAPI recognizes the parameter."""

    permit: HeldBytes | None = None
    """The request's share of the byte budget; the middleware releases it."""
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
    """Set by routes that take a body (see `routing.py`)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, readiness: Readiness, replies: ReplyBytes) -> None:
        super().__init__(scope, receive, send)
        self.receive_message = receive
        self.send_message = send
        self._readiness = readiness
        self._replies = replies
        self.raw_headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self.raw_headers.get(b"x-request-id"))
        if b"traceparent" in self.raw_headers:
            self.span = continue_trace(self.raw_headers[b"traceparent"])
        self.times = StageTimes()
        self.started = perf_counter()
        self.status = 0

    def header(self, name: bytes) -> bytes:
        return self.raw_headers.get(name, b"")

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
        if connection.write_paused:
            await self._replies.count_unread(len(body), connection.drain())
            if connection.reply_lost:
                raise ClientGone

    async def reply_problem(self, problem: Problem) -> None:
        document = problem.document(self.request_id.decode("ascii"))
        await self.reply(document, PROBLEM, problem.status, problem.headers)

    @property
    def has_message(self) -> bool:
        """True if `receive_message` is known to return at once."""
        connection = self.scope.get(CONNECTION)
        return connection is not None and connection.has_message(self.receive_message)

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Set a callback for when the client disconnects, even while its body is not being read; None to remove it."""
        connection = self.scope.get(CONNECTION)
        if connection is not None:
            connection.on_disconnect = callback

    async def wait_for_disconnect(self) -> None:
        """Wait until the client disconnects. Call it only after the body is read."""
        while (await self.receive_message())["type"] != "http.disconnect":
            pass


def request_id(header: bytes | None) -> bytes:
    """Return the client's request id if it is valid, else a new one."""
    if header is not None and REQUEST_ID.fullmatch(header):
        return header
    return f"{_process}-{next(_numbers):x}".encode("ascii")

"""One exchange: a request and the single reply to it, straight on ASGI's messages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from time import perf_counter
from typing import Protocol

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..wire.compression import Body
from ..wire.problems import MEDIA_TYPE as PROBLEM
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from .deadline import Deadline
from .readiness import Readiness
from .trace_context import Trace, trace_of

__all__ = ["CONNECTION", "EXCHANGE", "ClientGone", "Exchange"]

EXCHANGE = "assay.exchange"
"""Key of the exchange in the scope of a request."""

CONNECTION = "assay.connection"
"""Key of the connection in the scope of a request, if our own protocol serves it."""

JSON = b"application/json"

OK = 200

LONG_REPLY = 1 << 16
"""Bytes above which a reply to a short body is refused while too many replies are unread."""

REQUEST_ID = re.compile(rb"[!-~]{1,128}")
"""What a client's X-Request-ID must look like to be taken over: visible ASCII, no spaces."""

_process = secrets.token_hex(8)
_numbers = count(1)


class ClientGone(Exception):
    """The client closed the connection before its reply was ready."""


class Permit(Protocol):
    """Bytes of a budget that a request holds (see `admission.py`)."""

    nbytes: int

    def grow(self, nbytes: int, *, patient: bool = False) -> None: ...
    def hold(self) -> None: ...
    def release(self) -> None: ...


class Replies(Protocol):
    """The account of replies that clients have not read yet (see `admission.py`)."""

    @property
    def replies_full(self) -> bool: ...
    def over_capacity(self) -> Problem: ...
    async def until_taken(self, nbytes: int, taken: Awaitable[None]) -> None: ...


class Exchange(Request):
    """A request with its id, its clock and its reply.

    It is a Starlette request, so that FastAPI recognizes the parameter of an endpoint, but endpoints on the hot path
    use nothing of that: `header` reads one dictionary, `reply` sends two messages.
    """

    permit: Permit | None = None
    """The bytes that the request holds of the budget; the middleware gives them back."""

    max_queue_seconds: float | None = None
    """Seconds that requests to this route wait for their turn; None for routes that refuse at once."""

    short = True
    """True if no batch may hold up this request."""

    trace: Trace | None = None
    """The trace that the client's request continues."""

    deadline: Deadline
    """Set with the body, on routes that take one."""

    taken: Body
    """The body, on routes that take one (see `intake.py`)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, readiness: Readiness, replies: Replies) -> None:
        super().__init__(scope, receive, send)
        self.receive_message = receive
        self.send_message = send
        self._readiness = readiness
        self._replies = replies
        self.raw_headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self.raw_headers.get(b"x-request-id"))
        if b"traceparent" in self.raw_headers:
            self.trace = trace_of(self.raw_headers[b"traceparent"])
        self.times = StageTimes()
        self.started = perf_counter()
        self.status = 0
        """Status of the reply once it has begun; 0 before."""

    def header(self, name: bytes) -> bytes:
        """Return the value of a header by its lower-case name; empty if missing."""
        return self.raw_headers.get(name, b"")

    async def reply(
        self,
        body: bytes,
        media_type: bytes = JSON,
        status: int = 200,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send the whole reply, with the headers that every reply carries.

        Return when the kernel has all of it, or when the client has gone: until then its bytes are in this process, and
        the request holds what it was admitted with. Raise Problem `over-capacity` for a long reply to a short body,
        which was not admitted by its length, while too many replies are unread.
        """
        unadmitted = len(body) > LONG_REPLY and self.short and self.max_queue_seconds is None
        if unadmitted and status == OK and self._replies.replies_full:
            raise self._replies.over_capacity()
        self.status = status
        lines = [
            (b"content-type", media_type),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", self.request_id),
            (b"server-timing", self.times.header()),
            *headers,
        ]
        if self.trace is not None:
            lines.append((b"traceparent", self.trace.header()))
        connection = self.scope.get(CONNECTION)
        if self._readiness.draining and not (connection is not None and connection.pipeline):
            lines.append((b"connection", b"close"))
        if connection is None:
            await self.send_message({"type": "http.response.start", "status": status, "headers": lines})
            await self.send_message({"type": "http.response.body", "body": body})
            return
        if connection.flow.write_paused:  # the reply before this one is not taken yet
            await connection.flow.drain()
        connection.send_whole(self.send_message, status, lines, body)
        if connection.flow.write_paused:
            await self._replies.until_taken(len(body), connection.flow.drain())

    async def reply_problem(self, problem: Problem) -> None:
        """Send an error in the form of RFC 9457."""
        document = problem.document(self.request_id.decode("ascii"))
        await self.reply(document, PROBLEM, problem.status, problem.headers)

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        """Set what to call when the client disconnects, even while its body is not being read; None for nothing."""
        connection = self.scope.get(CONNECTION)
        if connection is not None:
            connection.on_disconnect = callback

    async def until_gone(self) -> None:
        """Return when the client has closed the connection. Only call it once the body is read."""
        while (await self.receive_message())["type"] != "http.disconnect":
            pass


def request_id(given: bytes | None) -> bytes:
    """Return the client's request id if it is well-formed, else a fresh one."""
    if given is not None and REQUEST_ID.fullmatch(given):
        return given
    return f"{_process}-{next(_numbers):x}".encode("ascii")

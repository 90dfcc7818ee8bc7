"""One exchange: a request and the single reply to it, straight on ASGI's messages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..wire.problems import MEDIA_TYPE as PROBLEM
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from .trace_context import Trace, trace_of

if TYPE_CHECKING:
    from ..state import ServiceState
    from .deadline import Deadline
    from .intake import Body
    from .work.admission import Permit

__all__ = ["CONNECTION", "ClientGone", "Exchange"]

CONNECTION = "assay.connection"
"""Where the scope of a request holds its connection, if that is a guarded one."""

JSON = b"application/json"

OK = 200

LONG_REPLY = 1 << 16
"""Bytes above which a reply to a short body is refused while too many replies are unread."""

REQUEST_ID = re.compile(rb"[!-~]{1,128}")
"""What a client's X-Request-ID must look like to be taken over: visible ASCII, no spaces."""

_process = secrets.token_hex(8)
_numbers = count(1)


class ClientGone(Exception):
    """The client closed the connection before its reply was ready: there is nobody to answer."""


class Exchange(Request):
    """A request with its id, its clock and its reply.

    It is a Starlette request, so that FastAPI knows an endpoint's parameter of this type, but endpoints on the hot path
    use nothing of that: `header` reads one dictionary, `reply` sends two messages.
    """

    permit: Permit | None = None
    """What the request holds of the budget of bytes; the frame gives it back."""

    patience: float | None = None
    """Seconds that this route's clients are let wait rather than refused; None on routes that refuse at once."""

    short = True
    """Whether the body is one that no batch may hold up."""

    trace: Trace | None = None
    """The trace that the client's request continues."""

    deadline: Deadline
    """Set with the body, on routes that take one."""

    taken: Body
    """The body, on routes that take one (see `intake.py`)."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, state: ServiceState) -> None:
        super().__init__(scope, receive, send)
        self.receive_message = receive
        self.send_message = send
        self.service = state
        self.raw_headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id(self.raw_headers.get(b"x-request-id"))
        if b"traceparent" in self.raw_headers:
            self.trace = trace_of(self.raw_headers[b"traceparent"])
        self.times = StageTimes()
        self.started = perf_counter()
        self.status = 0
        """Status of the reply once it has begun; 0 before."""

    def header(self, name: bytes) -> bytes:
        """A header's value by its lower-case name; empty where it is missing."""
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
        admission = self.service.admission
        if status == OK and len(body) > LONG_REPLY and self.short and self.patience is None and admission.replies_full:
            raise admission.batches.over_capacity()
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
        if self.service.readiness.draining and not (connection is not None and connection.pipeline):
            lines.append((b"connection", b"close"))
        if connection is None:
            await self.send_message({"type": "http.response.start", "status": status, "headers": lines})
            await self.send_message({"type": "http.response.body", "body": body})
            return
        if connection.flow.write_paused:  # the reply before this one is not taken yet
            await connection.flow.drain()
        connection.send_whole(self.send_message, status, lines, body)
        if connection.flow.write_paused:
            await admission.until_taken(len(body), connection.flow.drain())

    async def reply_problem(self, problem: Problem) -> None:
        """Send an error in the form of RFC 9457."""
        document = problem.document(self.request_id.decode("ascii"))
        await self.reply(document, PROBLEM, problem.status, problem.headers)

    def when_gone(self, callback: Callable[[], None] | None) -> None:
        """Call back when the client closes the connection, also while its body is not being read; None: no more."""
        connection = self.scope.get(CONNECTION)
        if connection is not None:
            connection.on_disconnect = callback

    async def until_gone(self) -> None:
        """Return when the client has closed the connection. Only to be called once the body is read."""
        while (await self.receive_message())["type"] != "http.disconnect":
            pass


def request_id(given: bytes | None) -> bytes:
    """The client's request id if it is a well-formed one, else a fresh one."""
    if given is not None and REQUEST_ID.fullmatch(given):
        return given
    return f"{_process}-{next(_numbers):x}".encode("ascii")

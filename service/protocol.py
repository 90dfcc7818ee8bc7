"""One connection under guard: uvicorn's own protocol limits neither heads, nor slow clients, nor what they line up.

Nothing here costs a usual request more than a few attributes: there are no timers. The server looks at every
connection once a second (`GuardedProtocol.inspect`) and remembers what it saw the last time.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from dataclasses import dataclass

import httptools
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from .asgi import CONNECTION, request_id
from .problems import MEDIA_TYPE, Problem

__all__ = ["Guard", "GuardedProtocol", "guarded"]

IDLE, HEAD, BODY = range(3)
"""What a connection receives at the moment."""

MOST_HEADERS = 128
MOST_PIPELINED = 32
"""Requests that a client may send ahead of their replies; each waits as a whole."""

MOST_CHUNKS = 1 << 16
"""Chunks of one body: each costs the interpreter a call, whatever its size."""

MOST_JOINED = 1 << 16
"""Bytes of a body that is copied behind its head, so that both are written at once."""

EXTRA_BYTES = 1 << 20
"""Bytes that a body's chunks, their extensions and its trailers may need besides the body itself."""


@dataclass
class Guard:
    """The limits of every connection, and who counts what is turned away."""

    max_head_bytes: int
    max_body_bytes: int
    head_seconds: float
    body_seconds: float
    idle_seconds: float
    rejected: Callable[[str], None]


class Refused(Exception):
    """Raised inside the parser: this connection has to end, with this reply."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the limits of its class attribute `guard`."""

    guard: Guard
    receiving = IDLE
    begun = False
    """Whether the message that is received began with the last piece of data."""
    feeding = 0
    """Bytes of that piece."""
    head_bytes = 0
    """Bytes of a head that has not ended, without the piece that it began with."""
    body_bytes = 0
    """Bytes since the head, of the body and of what is around it."""
    quiet_bytes = 0
    """Bytes since the head in which there was nothing of the body itself: extensions of chunks, and trailers."""
    chunks = 0
    messages = 0
    """Requests that have begun on this connection."""
    sink: bytearray | None = None
    """Where the body goes, if it is gathered as a whole."""
    farewell: Callable[[], None] | None = None
    """Called once when the client has gone."""
    seen = (-1, IDLE, 0, False)
    since = 0.0
    """What `inspect` found, and since when it has been so."""

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what it refuses, or what is over a limit, ends the connection."""
        self._unset_keepalive_if_required()
        if self.transport.is_closing():  # what comes after a refusal is not even parsed
            return
        self.feeding = len(data)
        try:
            self.parser.feed_data(data)
            if self.receiving:
                self.measure()
        except Refused as refused:
            self.refuse(refused.problem)
        except httptools.HttpParserUpgrade:
            if self.cycle is not None:  # answered as the plain request that it is; what follows would not be HTTP
                self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, Refused):
                self.refuse(error.__context__.problem)
            else:
                self.guard.rejected("not-http")
                self.send_400_response("Invalid HTTP request received.")

    def measure(self) -> None:
        """Count the last piece of data to the message that goes on after it; raises Refused."""
        if self.begun:
            self.begun = False
        elif self.receiving == HEAD:
            self.head_bytes += self.feeding
            if self.head_bytes > self.guard.max_head_bytes:
                raise Refused(head_too_large())
        else:
            self.body_bytes += self.feeding
            self.quiet_bytes += self.feeding
            if self.body_bytes > 2 * self.guard.max_body_bytes + EXTRA_BYTES:
                raise Refused(Problem("too-large", "More than twice the bytes that a body may have."))
            if self.quiet_bytes > self.guard.max_head_bytes + self.feeding:
                raise Refused(Problem("head-too-large", "The extensions or trailers of the chunks are too long."))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self.receiving = HEAD
        self.begun = True
        self.messages += 1
        self.head_bytes = self.body_bytes = self.quiet_bytes = self.chunks = 0

    def on_headers_complete(self) -> None:
        if self.head_bytes + self.feeding > self.guard.max_head_bytes or len(self.headers) > MOST_HEADERS:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self.guard.max_head_bytes or len(self.headers) > MOST_HEADERS:
                raise Refused(head_too_large())
        if len(self.pipeline) >= MOST_PIPELINED:
            raise Refused(Problem("over-capacity", "Too many requests were sent ahead of their replies."))
        super().on_headers_complete()
        self.receiving = BODY

    def on_chunk_header(self) -> None:
        self.chunks += 1
        if self.chunks > MOST_CHUNKS:
            raise Refused(Problem("too-large", f"A body may come in {MOST_CHUNKS} chunks."))

    def on_body(self, body: bytes) -> None:
        self.quiet_bytes = -self.feeding  # which `measure` takes back
        if self.sink is None or self.cycle.response_complete:
            super().on_body(body)
        else:
            self.sink += body

    def collect(self, send: Send) -> bytearray | None:
        """Gather the body of the request whose `send` this is as a whole, instead of in pieces of 64 KiB for each of
        which its endpoint is woken: for a body whose length is known, and for which there is room.

        None where it does not arrive any more. What has arrived is in it already; the next message says when all of it
        is there, without a byte of it.
        """
        cycle = self.cycle
        if self.receiving != BODY or cycle is None or cycle is not getattr(send, "__self__", None):
            return None
        self.sink, cycle.body = cycle.body, bytearray()
        cycle.message_event.clear()
        return self.sink

    def on_message_complete(self) -> None:
        self.receiving = IDLE
        self.sink = None
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()  # what is lined up comes first, or the line would have no end

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.farewell is not None:
            self.farewell()
        if self.scope is not None:  # the two name each other: let go at once, they need not be found by the collector
            self.scope.pop(CONNECTION, None)  # type: ignore[misc]

    # What is sent

    def send_whole(self, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a small reply with one call instead of two messages; False where the messages have to serve.

        `send` is that of the request's cycle, which is left as its own `send` would leave it. Two writes of a few
        hundred bytes cost a quarter of all that is done for a single response.
        """
        cycle = getattr(send, "__self__", None)
        if not isinstance(cycle, RequestResponseCycle) or len(body) > MOST_JOINED:
            return False
        if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or cycle.access_log:
            return False
        lines = [STATUS_LINE[status]]
        closing = False
        for name, value in (*cycle.default_headers, *headers):
            closing = closing or name == b"connection"
            lines += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive and not closing:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        if cycle.scope["method"] != "HEAD":
            lines.append(body)
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = cycle.chunked_encoding = False
        cycle.keep_alive = cycle.keep_alive and not closing
        cycle.transport.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True

    # What has to end

    def refuse(self, problem: Problem) -> None:
        """Count, answer where the client cannot take that for the reply to another request, and close."""
        self.guard.rejected(problem.kind)
        cycle = self.cycle
        if self.receiving == HEAD:
            unanswered = cycle is None or cycle.response_complete
        else:
            unanswered = not self.pipeline and not cycle.response_started
        if unanswered:
            self.transport.write(written(problem))
        self.transport.close()
        if cycle is not None and not cycle.response_complete:  # its endpoint shall not write any more
            cycle.disconnected = True
            cycle.message_event.set()

    def inspect(self, now: float) -> None:
        """End the connection if it has received one head, one body, or its client one reply, for too long."""
        transport = self.transport
        if transport is None:
            return
        if self.farewell is not None and has_left(transport):
            transport.abort()  # it waits for its turn, so nobody reads from it and would see that it has gone
            return
        unsent = transport.get_write_buffer_size()
        answered = self.cycle is None or self.cycle.response_complete
        seen = (self.messages, self.receiving, unsent, answered)
        if seen != self.seen:
            self.seen, self.since = seen, now
            return
        waited = now - self.since
        if unsent:
            if waited > self.guard.body_seconds:  # a reply that is not taken, and not a byte of it
                transport.abort()
        elif self.receiving == HEAD:
            if waited > self.guard.head_seconds:
                self.refuse(Problem("too-slow", "The head did not arrive in time."))
        elif self.receiving == BODY:
            # Until the reply the endpoint keeps the time; here the rest of a body is waited for after it.
            if waited > self.guard.body_seconds and answered:
                self.guard.rejected("too-slow")
                transport.close()
        elif waited > self.guard.idle_seconds and answered:
            # Before its first request too: a busy trainer may open it long before it comes to write.
            self.guard.rejected("too-slow")
            transport.close()  # without a word, which would be taken for the reply to a request that comes now


def has_left(transport: asyncio.Transport) -> bool:
    """Whether the client has closed its side, also where what it has sent before is not read yet.

    The kernel knows once all of that lies in its buffers; of a longer body the end is met when its turn has come.
    """
    poller = select.poll()
    poller.register(transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
    return bool(poller.poll(0))


def guarded(guard: Guard) -> type[GuardedProtocol]:
    """The protocol class for these limits, as uvicorn wants it."""
    return type("Guarded", (GuardedProtocol,), {"guard": guard})


def head_too_large() -> Problem:
    return Problem("head-too-large", "The request line and headers are longer than `max_head_bytes`, or too many.")


def written(problem: Problem) -> bytes:
    """A whole reply, for a request that never reaches the application."""
    identity = request_id(None)
    document = problem.document(identity.decode("ascii"))
    headers = b"content-type: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\nconnection: close\r\n" % (
        MEDIA_TYPE,
        len(document),
        identity,
    )
    extra = b"".join(b"%b: %b\r\n" % header for header in problem.headers)
    return STATUS_LINE[problem.status] + headers + extra + b"\r\n" + document

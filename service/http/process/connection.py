"""One connection under guard: uvicorn's own protocol limits neither heads, nor slow clients, nor what they line up.

Nothing here costs a usual request more than a few attributes: there are no timers. The server looks at every
connection once a second (`EndingProtocol.inspect`), which remembers what was seen the last time.
"""

from __future__ import annotations

import asyncio
import time

import httptools
from starlette.types import Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from ..request.exchange import CONNECTION
from ..wire.problems import Problem
from .closing import BODY, HEAD, IDLE, EndingProtocol
from .connection_limits import Guard, Refused, head_too_large, no_descriptors, not_http, refused, too_many_ahead

__all__ = ["GuardedProtocol", "guarded"]

MAX_HEADERS = 128
MAX_PIPELINED = 32
"""Requests that a client may send ahead of their replies; each waits as a whole."""

MAX_CHUNKS = 1 << 16
"""Chunks of one body: each costs the interpreter a call, whatever its size."""

MAX_JOINED = 1 << 16
"""Bytes of a body that is copied behind its head, so that both are written at once."""

EXTRA_BYTES = 1 << 20
"""Bytes that a body's chunks, their extensions and its trailers may need besides the body itself."""


class GuardedProtocol(EndingProtocol):
    """uvicorn's protocol with the limits of its class attribute `guard`."""

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
    sink: bytearray | None = None
    """Where the body goes, if it is gathered as a whole."""

    # What arrives

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused while anything is unsent, and only then
        if transport.get_extra_info("socket").fileno() >= self.guard.max_descriptor:
            self.refuse(no_descriptors(self.guard.max_descriptor))
            self.lingers_until = time.monotonic()  # until the next inspection: its descriptor is needed

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what it refuses, or what is over a limit, ends the connection."""
        self._unset_keepalive_if_required()
        if self.discarding or self.transport.is_closing():
            self.discard(len(data))
            return
        self.feeding = len(data)
        try:
            self.parser.feed_data(data)
            if self.receiving:
                self.measure()
        except Refused as refusal:
            self.refuse(refusal)
        except httptools.HttpParserUpgrade:
            if self.cycle is not None:  # answered as the plain request that it is; what follows would not be HTTP
                self.cycle.keep_alive = False
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, Refused) else not_http("Invalid HTTP request received."))

    def measure(self) -> None:
        """Count the last piece of data to the message that goes on after it; raises Refused."""
        if self.begun:
            self.begun = False
        elif self.receiving == HEAD:
            self.head_bytes += self.feeding
            if self.head_bytes > self.guard.max_head_bytes:
                raise head_too_large()
        else:
            self.body_bytes += self.feeding
            self.quiet_bytes += self.feeding
            if self.body_bytes > 2 * self.guard.max_body_bytes + EXTRA_BYTES:
                raise refused(Problem("too-large", "More than twice the bytes that a body may have."))
            if self.quiet_bytes > self.guard.max_head_bytes + self.feeding:
                raise refused(Problem("head-too-large", "The extensions or trailers of the chunks are too long."))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self.receiving = HEAD
        self.begun = True
        self.messages += 1
        self.head_bytes = self.body_bytes = self.quiet_bytes = self.chunks = 0

    def on_headers_complete(self) -> None:
        if self.head_bytes + self.feeding > self.guard.max_head_bytes or len(self.headers) > MAX_HEADERS:
            size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            if size > self.guard.max_head_bytes or len(self.headers) > MAX_HEADERS:
                raise head_too_large()
        self.check_host()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise too_many_ahead()
        super().on_headers_complete()
        if not self.parser.should_keep_alive():
            self.cycle.keep_alive = False  # uvicorn before 0.53 looks at it only in its own `send`
        self.receiving = BODY

    def check_host(self) -> None:
        """Raise Refused unless this is HTTP/1.1 with one Host, or HTTP/1.0 with one at most."""
        version = self.parser.get_http_version()
        hosts = 0
        for name, _ in self.headers:
            if name == b"host":
                hosts += 1
        if hosts != 1 and (hosts or version == "1.1"):
            raise not_http("A request has one Host.")
        if version not in ("1.1", "1.0"):
            raise not_http("This server speaks HTTP/1.1 and HTTP/1.0.")

    def on_chunk_header(self) -> None:
        self.chunks += 1
        if self.chunks > MAX_CHUNKS:
            raise refused(Problem("too-large", f"A body may come in {MAX_CHUNKS} chunks."))

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

    # What is sent

    def send_whole(self, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Write a reply with one call instead of two messages, unless its client has gone.

        `send` is that of the request's cycle, which is left as its own `send` would leave it. Two writes of a few
        hundred bytes cost a quarter of all that is done for a single response.
        """
        cycle = send.__self__  # type: ignore[attr-defined]
        assert isinstance(cycle, RequestResponseCycle)
        transport = self.transport
        if cycle.disconnected or cycle.response_started:
            return
        if transport.is_closing():
            cycle.disconnected = True  # uvicorn tells only the request that came last
            return
        lines = [STATUS_LINE[status]]
        closing = False
        for name, value in (*cycle.default_headers, *headers):
            closing = closing or name == b"connection"
            lines += (name, b": ", value, b"\r\n")
        if not cycle.keep_alive and not closing:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        if cycle.scope["method"] == "HEAD":
            body = b""
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = cycle.chunked_encoding = False
        cycle.keep_alive = cycle.keep_alive and not closing
        if len(body) > MAX_JOINED:
            transport.writelines((b"".join(lines), body))
        else:
            lines.append(body)
            transport.write(b"".join(lines))
        cycle.message_event.set()
        if not cycle.keep_alive and self.parting is None:
            self.finish()
        cycle.on_response()


def guarded(guard: Guard) -> type[GuardedProtocol]:
    """The protocol class for these limits, as uvicorn wants it."""
    return type("Guarded", (GuardedProtocol,), {"guard": guard})

"""uvicorn's HTTP protocol plus limits on header size, slow clients and pipelined requests.

The limits cost a usual request a few attribute accesses: there are no timers. The server checks every connection once
a second (`ClosingProtocol.check_timeouts`).
"""

from __future__ import annotations

import asyncio
import re
import time

import httptools

from ..wire.compression import too_large
from ..wire.problems import Problem
from .closing import BODY, HEAD, IDLE, ClosingProtocol
from .connection_limits import Guard, Refused, head_too_large, no_descriptors, not_http, problem_refusal, too_many_ahead

__all__ = ["GuardedProtocol", "protocol_class"]

MAX_HEADERS = 128
MAX_PIPELINED = 32
MAX_CHUNKS = 1 << 16
"""Chunks of one body: each costs a Python call, whatever its size."""

EXTRA_BYTES = 1 << 20
"""Bytes of chunk framing and trailers that are allowed on top of the body."""

SIZE = re.compile(rb"[0-9A-Fa-f]+")
MAX_SIZE_BYTES = 64
"""Bytes to remember from the end of a piece of data, where the size of a chunk may begin."""


class GuardedProtocol(ClosingProtocol):
    """uvicorn's protocol with the limits of its class attribute `guard`."""

    message_started = False
    chunk_size = 0
    """Bytes in the last piece of data."""
    head_bytes = 0
    """Bytes of an incomplete head, without the piece that it started in."""
    body_bytes = 0
    """Bytes since the head: the body and its framing."""
    framing_bytes = 0
    """Bytes since the last body data: chunk extensions and trailers."""
    chunks = 0
    chunk_bytes = -1
    """Bytes of an incomplete chunk in the current piece of data; -1 if its size is in an earlier piece."""
    last_bytes = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused exactly while data is unsent
        if transport.get_extra_info("socket").fileno() >= self.guard.max_descriptor:
            self.refuse(no_descriptors(self.guard.max_descriptor))
            self.linger_deadline = time.monotonic()  # until the next check: its descriptor is needed

    def data_received(self, data: bytes) -> None:
        self.stop_idle_timer()
        if self.discarding or self.transport.is_closing():
            self.discard(len(data))
            return
        self.chunk_size = len(data)
        try:
            self.feed(data)
            if self.receiving:
                self.check_limits()
                if self.chunks:
                    self.check_chunk_size(data)
        except Refused as refusal:
            self.refuse(refusal)
        except httptools.HttpParserUpgrade:
            self.keep_alive_no_longer()  # answered as a plain request; what follows would not be HTTP
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, Refused) else not_http("Invalid HTTP request received."))

    def check_limits(self) -> None:
        """Count the last piece of data towards the limits of the current message; raises Refused."""
        if self.message_started:
            self.message_started = False
        elif self.receiving == HEAD:
            self.head_bytes += self.chunk_size
            if self.head_bytes > self.guard.settings.max_head_bytes:
                raise head_too_large()
        else:
            self.body_bytes += self.chunk_size
            self.framing_bytes += self.chunk_size
            if self.body_bytes > 2 * self.guard.settings.max_body_bytes + EXTRA_BYTES:
                raise problem_refusal(Problem("too-large", "Body and chunk framing exceed twice `max_body_bytes`."))
            if self.framing_bytes > self.guard.settings.max_head_bytes + self.chunk_size:
                raise problem_refusal(Problem("head-too-large", "The chunk extensions or trailers are too long."))

    def check_chunk_size(self, data: bytes) -> None:
        """Raise Refused if the incomplete chunk of a body is longer than a body may be.

        The parser reports where its data begins, but not its size, which is the last line before the data. A size that
        is spread over more than two pieces is not seen, and its body takes its time.
        """
        if self.chunk_bytes >= 0:
            before = (self.last_bytes + data)[: len(self.last_bytes) + len(data) - self.chunk_bytes]
            line = before[before.rfind(b"\n", 0, -1) + 1 :]
            digits = SIZE.match(line)
            if digits and int(digits[0], 16) > self.guard.settings.max_body_bytes:
                raise problem_refusal(too_large(self.guard.settings.max_body_bytes))
        self.chunk_bytes = -1
        self.last_bytes = data[-MAX_SIZE_BYTES:]

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.receiving = HEAD
        self.message_started = True
        self.messages += 1
        self.head_bytes = self.body_bytes = self.framing_bytes = self.chunks = 0

    def on_headers_complete(self) -> None:
        headers = self.request_headers
        if self.head_bytes + self.chunk_size > self.guard.settings.max_head_bytes or len(headers) > MAX_HEADERS:
            size = len(self.request_target) + sum(len(name) + len(value) for name, value in headers)
            if size > self.guard.settings.max_head_bytes or len(headers) > MAX_HEADERS:
                raise head_too_large()
        check_host(self.http_version, headers)
        if self.pipelined >= MAX_PIPELINED:
            raise too_many_ahead()
        super().on_headers_complete()
        self.receiving = BODY

    def on_chunk_header(self) -> None:
        self.chunks += 1
        self.chunk_bytes = 0
        if self.chunks > MAX_CHUNKS:
            raise problem_refusal(Problem("too-large", f"A body may have at most {MAX_CHUNKS} chunks."))

    def on_body(self, body: bytes) -> None:
        self.framing_bytes = -self.chunk_size  # `check_limits` adds it back
        if self.chunk_bytes >= 0:
            self.chunk_bytes += len(body)
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self.chunk_bytes = -1

    def on_message_complete(self) -> None:
        self.receiving = IDLE
        super().on_message_complete()


def check_host(version: str, headers: list[tuple[bytes, bytes]]) -> None:
    """Raise Refused unless this is HTTP/1.1 with one Host, or HTTP/1.0 with one at most."""
    hosts = 0
    for name, _ in headers:
        if name == b"host":
            hosts += 1
    if hosts != 1 and (hosts or version == "1.1"):
        raise not_http("A request must have exactly one Host header.")
    if version not in ("1.1", "1.0"):
        raise not_http("This server supports only HTTP/1.1 and HTTP/1.0.")


def protocol_class(guard: Guard) -> type[GuardedProtocol]:
    return type("Guarded", (GuardedProtocol,), {"guard": guard})

"""Connections: limits of time and size, and how they are closed.

Closing a socket while bytes from the client are unread or in flight resets the connection, and the client loses the
reply. So a connection whose request was not read completely lingers: the sending side is closed, and input is dropped
until the client closes its side, for a bounded time and size.

The limits cost a usual request a few attribute accesses: there are no timers. The server checks every connection once
a second (`ClosingProtocol.check_timeouts`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

import httptools

from ...config import ServerSettings
from ..request.exchange import request_id
from ..wire.headers import PROBLEM_JSON, Problem, too_large
from .sockets import events_of
from .uvicorn_protocol import UvicornProtocol

log = logging.getLogger("assay")

LOG_SECONDS = 10.0
MAX_LINGERING = 1024
CONGESTED_SECONDS = 2.0
CONGESTED_RATE = 4 << 20
"""Seconds and minimum bytes per second in which a client must read its reply while too many replies are unread."""

LINGER_BYTES = 1 << 24
LINGER_BODIES = 4
"""Limits of the input dropped from a lingering connection: in bytes, and in multiples of `max_body_bytes`; the larger
applies."""


@dataclass
class Guard:
    """The limits of every connection, and the callbacks that count refusals."""

    settings: ServerSettings
    max_descriptor: int
    rejected: Callable[[str], None]
    replies_full: Callable[[], bool] = lambda: False
    lingering: int = 0
    _logged: dict[str, float] = field(default_factory=dict)

    def reply_seconds(self, nbytes: int) -> float:
        """Return the time a client has to read a reply of `nbytes`; short while too many replies are unread."""
        usual = self.settings.body_seconds * max(1.0, nbytes / self.settings.max_body_bytes)
        return min(usual, CONGESTED_SECONDS + nbytes / CONGESTED_RATE) if self.replies_full() else usual

    @property
    def linger_bytes(self) -> int:
        return max(LINGER_BYTES, LINGER_BODIES * self.settings.max_body_bytes)

    def count_refusal(self, refused: Refused) -> None:
        self.rejected(refused.reason)
        now = time.monotonic()
        if refused.log and now - self._logged.get(refused.reason, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[refused.reason] = now
            log.warning("%s (at most one such line in %d s)", refused.log, LOG_SECONDS)


class Refused(Exception):
    """Raised inside the parser: close this connection with this reply."""

    def __init__(self, reason: str, reply: bytes, log: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.reply = reply
        self.log = log


def problem_refusal(problem: Problem, reason: str = "", log: str = "") -> Refused:
    """Return a refusal with a problem document, counted as `reason`, by default the problem's kind."""
    identity = request_id(None)
    headers = ((b"content-type", PROBLEM_JSON), (b"x-request-id", identity), *problem.headers)
    reply = last_reply(problem.status, headers, problem.document(identity.decode("ascii")))
    return Refused(reason or problem.kind, reply, log)


def head_too_large() -> Refused:
    detail = "The request line and headers are longer than `max_head_bytes`, or too many."
    return problem_refusal(Problem("head-too-large", detail))


def not_http(detail: str) -> Refused:
    """Return a refusal in plain text: a client that does not speak HTTP hardly reads problem documents."""
    headers = ((b"content-type", b"text/plain; charset=utf-8"),)
    return Refused("not-http", last_reply(HTTPStatus.BAD_REQUEST, headers, detail.encode("ascii")))


def too_many_ahead() -> Refused:
    problem = Problem("over-capacity", "Too many pipelined requests.")
    log = "a connection was closed: its client pipelined too many requests"
    return problem_refusal(problem, "pipelined", log)


def no_descriptors(limit: int) -> Refused:
    problem = Problem("over-capacity", "The service has too many connections.")
    log = f"connections are refused: {limit} file descriptors are in use; raise the limit (ulimit -n, LimitNOFILE)"
    return problem_refusal(problem, "descriptors", log)


def last_reply(status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    end = ((b"content-length", b"%d" % len(body)), (b"connection", b"close"))
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode("ascii")]
    lines += [b"%b: %b" % header for header in (*headers, *end)]
    return b"\r\n".join((*lines, b"", body))


SHUTDOWN_LINGER_SECONDS = 2.0
IDLE, HEAD, BODY = range(3)


class ClosingProtocol(UvicornProtocol):
    """uvicorn's protocol with lossless closing and the time limits of its class attribute `guard`."""

    guard: Guard
    receiving = IDLE
    messages = 0
    on_disconnect: Callable[[], None] | None = None
    unsent_since = 0.0
    unsent_bytes = 0
    discarding = False
    discarded = 0
    last_reply: bytes | None = None
    """Sent before the connection is closed, once all earlier requests are answered."""
    lingering = False
    linger_deadline = 0.0
    reply_lost = False
    probed = False
    last_state = (-1, IDLE, False)
    last_change = 0.0
    """The state that `check_timeouts` saw last, and when it changed."""

    # Transport callbacks

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unsent_since = time.monotonic()
        self.unsent_bytes = self.transport.get_write_buffer_size()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open for pending replies: some clients close their sending side after the last request."""
        cut_short = self.receiving and not self.discarding
        if self.lingering or cut_short or self.answered:
            return False
        self.half_closed = True
        if self.last_reply is None:
            self.keep_alive_no_longer()
        self.probe()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.reply_lost = self.write_paused
        super().connection_lost(exc)
        if self.on_disconnect is not None:
            self.on_disconnect()
        if self.lingering:
            self.guard.lingering -= 1

    def discard(self, nbytes: int) -> None:
        self.discarded += nbytes
        if self.discarded > self.guard.linger_bytes:
            self.transport.abort()

    def on_response_complete(self) -> None:
        if self.lingering:
            return
        if self.last_reply is not None and not self.pipelined:
            self.send_last_reply()
            return
        super().on_response_complete()
        if self.pipelined and not self.transport.is_closing():
            self.pause_reading()  # answer the pipelined requests first, or the pipeline would grow without end

    # Closing connections

    def refuse(self, refusal: Refused) -> None:
        self.guard.count_refusal(refusal)
        self.discarding = True
        self.last_reply = refusal.reply
        if self.receiving != BODY:
            if self.answered:
                self.send_last_reply()
        elif not self.drop_waiting_request():
            if self.answered:
                self.last_reply = b""
            else:
                self.abandon_request()
            self.send_last_reply()

    def close_after_reply(self) -> None:
        if self.last_reply is None:
            self.finish()

    def send_last_reply(self) -> None:
        reply, self.last_reply = self.last_reply, None
        if reply and not self.transport.is_closing():
            self.transport.write(reply)
        self.finish()

    def finish(self) -> None:
        """Close the connection after its last reply: at once if the client has nothing more to send."""
        transport = self.transport
        if self.lingering or transport.is_closing():
            return
        sending = (self.receiving or self.discarding or self.has_unread()) and not self.half_closed
        if not sending or self.guard.lingering >= MAX_LINGERING:
            transport.close()
            return
        self.lingering = self.discarding = True
        self.guard.lingering += 1
        self.linger_deadline = time.monotonic() + self.guard.settings.body_seconds
        self.stop_idle_timer()
        self.resume_reading()
        transport.write_eof()

    def may_send_request(self) -> bool:
        """Return whether a request may be in flight: the first of the connection, or one that is arriving."""
        if self.lingering or self.discarding or self.transport.is_closing():
            return False
        return not self.messages or self.receiving == HEAD or (self.receiving == IDLE and self.has_unread())

    def has_unread(self) -> bool:
        return bool(self.events() & select.POLLIN)

    def events(self) -> int:
        return events_of(self.transport.get_extra_info("socket").fileno())

    def shutdown(self) -> None:
        """Close the connection if it is idle, else after its reply; called once the server has stopped listening."""
        if self.lingering:
            self.linger_deadline = min(self.linger_deadline, time.monotonic() + SHUTDOWN_LINGER_SECONDS)
        elif self.transport.is_closing() or self.last_reply is not None:
            return  # closing already
        elif not self.answered:
            self.keep_alive_no_longer()
        elif self.receiving != HEAD and (self.receiving == BODY or not self.has_unread()):
            self.finish()

    # Once a second

    def check_timeouts(self, now: float) -> None:
        """Close the connection if receiving one head or body, or sending one reply, takes too long."""
        if self.write_paused:
            # even if part of the reply was read meanwhile
            if now - self.unsent_since > self.guard.reply_seconds(self.unsent_bytes):
                self.guard.rejected("too-slow")
                self.transport.abort()
        elif self.lingering:
            if now > self.linger_deadline:
                self.transport.abort()
        elif (self.on_disconnect is not None or self.half_closed) and self.has_disconnected():
            self.transport.abort()
        elif not self.discarding:
            self.check_receive_timeouts(now)

    def check_receive_timeouts(self, now: float) -> None:
        answered = self.answered
        state = (self.messages, self.receiving, answered)
        if state != self.last_state:
            self.last_state, self.last_change = state, now
            return
        waited = now - self.last_change
        if self.receiving == HEAD:
            if waited > self.guard.settings.head_seconds:
                self.refuse(problem_refusal(Problem("too-slow", "The request head did not arrive in time.")))
        elif self.receiving == BODY:
            # Until it replies, the endpoint enforces its own timeout.
            if waited > self.guard.settings.body_seconds and answered:
                self.guard.rejected("too-slow")
                self.transport.close()
        elif waited > self.guard.settings.keep_alive_seconds and answered:
            # Also before the first request: a busy trainer may connect long before it writes.
            self.guard.rejected("too-slow")
            self.transport.close()  # send nothing: the client could take it for the reply to its next request

    def has_disconnected(self) -> bool:
        events = self.events()
        if events & select.POLLRDHUP and not self.probed:
            self.probe()
            events = self.events()  # a client on the same machine has answered already
        return bool(events & (select.POLLHUP | select.POLLERR))

    def probe(self) -> None:
        """Send an interim reply to a half-closed client: if it has gone, its kernel resets the connection."""
        # HTTP/1.1 clients ignore it (RFC 9110 section 15.2); HTTP/1.0 has none.
        self.probed = True
        if self.http_version == "1.1" and not self.write_paused:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


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

"""Connections: uvicorn's HTTP protocol with limits of time and size, and without lost replies.

Closing a socket while bytes from the client are unread or in flight resets the connection, and the client loses the
reply. So a connection whose request was not read completely lingers: the sending side is closed, and input is dropped
until the client closes its side, for a bounded time and size.

The limits cost a usual request a few attribute accesses: there are no timers. The server checks every connection once
a second (`GuardedProtocol.check_timeouts`).

No other module uses private names of uvicorn. `tests/http/process/test_uvicorn_names.py` lists the names that a version
of uvicorn lacks or has changed, and pyproject.toml excludes versions that have not been tested.
"""

from __future__ import annotations

import asyncio
import re
import select
import time
from collections.abc import Callable
from contextlib import suppress

import httptools
from starlette.types import Receive, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ...wire.problems import Problem, too_large
from ..request.exchange import CONNECTION
from .refusals import (
    Guard,
    Refused,
    check_host,
    head_too_large,
    no_descriptors,
    not_http,
    problem_refusal,
    too_many_ahead,
)
from .sockets import events_of

MAX_HEADERS = 128
MAX_PIPELINED = 32
MAX_PIPELINED_HEADERS = 8 * MAX_HEADERS
MAX_LINGERING = 1024
SHUTDOWN_LINGER_SECONDS = 2.0
ANSWER_SECONDS = 0.05
"""From an interim reply to the reset of a client that has gone; `check_timeouts` sees what takes longer."""

MAX_JOINED = 1 << 16
"""Bytes of a body that is copied after its head, so that one write sends both."""

MAX_CHUNKS = 1 << 16
"""Chunks of one body: each costs a Python call, whatever its size."""

EXTRA_BYTES = 1 << 20
"""Bytes of chunk framing and trailers that are allowed on top of the body."""

SIZE = re.compile(rb"[0-9A-Fa-f]+")
MAX_SIZE_BYTES = 64
"""Bytes to remember from the end of a piece of data, where the size of a chunk may begin."""

IDLE, HEAD, BODY = range(3)


class Trailers(list[tuple[bytes, bytes]]):
    """Replaces the headers of a request once its head is complete: what is appended later is dropped."""

    def append(self, _trailer: tuple[bytes, bytes]) -> None:
        pass


TRAILERS = Trailers()


class RestOfBody:
    """The bytes of a body after those that the parser has seen; they are appended to `body` as they arrive."""

    def __init__(self, body: bytearray, nbytes: int, cycle: RequestResponseCycle, flow: FlowControl) -> None:
        self.body: bytearray | None = body
        """None once nobody wants it any more."""
        self.left = nbytes
        self._arrived = 0
        self._cycle, self._flow = cycle, flow

    def receive(self, data: bytes) -> bytes:
        """Return what follows the body in `data`."""
        piece = data[: self.left]
        self.left -= len(piece)
        if self.body is not None:
            self.body += piece
            self._arrived += len(piece)
            if self._arrived > HIGH_WATER_LIMIT:
                self._flow.pause_reading()
            self._cycle.message_event.set()
        return data[len(piece) :]

    def take(self) -> int:
        """Return how many bytes have arrived since the last call."""
        arrived, self._arrived = self._arrived, 0
        return arrived


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with lossless closing and the limits of its class attribute `guard`."""

    guard: Guard
    receiving = IDLE
    messages = 0
    on_disconnect: Callable[[], None] | None = None
    unsent_since = 0.0
    unsent_bytes = 0
    half_closed = False
    """True if the client has closed its sending side and waits for a reply."""
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
    diverted: RestOfBody | None = None
    """What is left of a body that bypasses the parser."""

    @property
    def answered(self) -> bool:
        """True unless a request is in work or waits."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def pipelined(self) -> int:
        """Requests that wait for earlier ones."""
        return len(self.pipeline)

    @property
    def write_paused(self) -> bool:
        """True while bytes that were written are unsent."""
        return self.flow.write_paused

    async def drain(self) -> None:
        """Wait until all that was written is sent, or the client has disconnected."""
        await self.flow.drain()

    # Transport callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused exactly while data is unsent
        if transport.get_extra_info("socket").fileno() >= self.guard.max_descriptor:
            self.refuse(no_descriptors(self.guard.max_descriptor))
            self.linger_deadline = time.monotonic()  # until the next check: its descriptor is needed

    def connection_lost(self, exc: Exception | None) -> None:
        self.reply_lost = self.write_paused
        super().connection_lost(exc)
        if self.guard.balance is not None:
            self.guard.balance.closed()
        self._unset_keepalive_if_required()  # uvicorn does not after a reset, and its timer holds the connection
        if self.on_disconnect is not None:
            self.on_disconnect()
        if self.lingering:
            self.guard.lingering -= 1
        self.forget()

    def forget(self) -> None:
        """Break all cycles, so that the memory of the connection is free once its last request has ended."""
        for cycle in (*(cycle for cycle, _ in self.pipeline), self.cycle):
            if cycle is not None:
                cycle.scope.pop(CONNECTION, None)  # type: ignore[misc]
        self.pipeline.clear()
        self.headers = TRAILERS
        self.scope = self.cycle = self.diverted = self.on_disconnect = None  # type: ignore[assignment]

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
        self.loop.call_later(ANSWER_SECONDS, self.check_probe)
        return True

    def check_probe(self) -> None:
        """Close the connection if the client has gone: others wait for the threads that work for it."""
        if not self.transport.is_closing() and self.has_disconnected():
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self.discarding or self.transport.is_closing():
            self.discarded += len(data)
            if self.discarded > self.guard.linger_bytes:
                self.transport.abort()
            return
        if self.diverted is not None:
            data = self.diverted.receive(data)
            if self.diverted.left:
                return
            self.diverted = None
            self.renew_parser()  # the old one waits for the bytes that it has not seen
            self.on_message_complete()
            if not data:
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
        except httptools.HttpParserError as error:
            cause = error.__context__
            self.refuse(cause if isinstance(cause, Refused) else not_http("Invalid HTTP request received."))

    # Parsing

    def feed(self, data: bytes) -> None:
        """Parse the next bytes; read a head that asks for an upgrade again, without that wish."""
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                if self.receiving != HEAD:  # CONNECT: what follows would not be HTTP
                    self.keep_alive_no_longer()
                    return
                data = self.head_without_upgrade() + data[upgrade.args[0] :]
                self.renew_parser()  # the old one skips the body

    def renew_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        with suppress(AttributeError):  # httptools before 0.6.3
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does

    def head_without_upgrade(self) -> bytes:
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join((*lines, b"", b""))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CONNECTION] = self  # type: ignore[literal-required]
        self.receiving = HEAD
        self.message_started = True
        self.messages += 1
        self.head_bytes = self.body_bytes = self.framing_bytes = self.chunks = 0

    def on_headers_complete(self) -> None:
        self.check_head()
        check_host(self.parser.get_http_version(), self.headers)
        if self.pipeline:
            self.check_pipeline()
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return  # `feed` reads it again
        super().on_headers_complete()
        self.headers = TRAILERS
        if not self.parser.should_keep_alive():
            self.cycle.keep_alive = False  # uvicorn before 0.53 checks it only in its own `send`
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
        if self.receiving == HEAD:
            return  # `feed` reads it again
        self.receiving = IDLE
        super().on_message_complete()

    def check_head(self) -> None:
        """Raise Refused if the head, as far as it has arrived, is too long or has too many headers."""
        headers, max_bytes = self.headers, self.guard.settings.max_head_bytes
        if len(headers) > MAX_HEADERS:
            raise head_too_large()
        if self.head_bytes + self.chunk_size > max_bytes:
            size = len(self.url) + sum(len(name) + len(value) for name, value in headers)
            if size > max_bytes:
                raise head_too_large()

    def check_pipeline(self) -> None:
        """Raise Refused if too many requests, or too many headers, wait for earlier requests."""
        headers = sum(len(list(cycle.scope["headers"])) for cycle, _ in self.pipeline)
        if len(self.pipeline) >= MAX_PIPELINED or headers > MAX_PIPELINED_HEADERS:
            raise too_many_ahead()

    def check_limits(self) -> None:
        """Count the last piece of data towards the limits of the current message; raises Refused."""
        if self.receiving == HEAD:
            self.check_head()
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

    def on_response_complete(self) -> None:
        if self.lingering:
            return
        if self.last_reply is not None and not self.pipeline:
            self.send_last_reply()
            return
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()  # answer the pipelined requests first, or the pipeline would grow without end

    def divert(self, receive: Receive, body: bytearray, nbytes: int) -> RestOfBody | None:
        """Append the last `nbytes` of a body to `body` as they arrive; None unless `receive` has returned the others.

        From then on, `receive` returns messages without bytes, whose number is known from `RestOfBody.take`.
        """
        cycle = self.cycle
        is_current = cycle is not None and getattr(receive, "__self__", None) is cycle and self.receiving == BODY
        if is_current and not cycle.body and not self.discarding:
            self.diverted = RestOfBody(body, nbytes, cycle, self.flow)
        return self.diverted

    # Closing connections

    def refuse(self, refusal: Refused) -> None:
        self.guard.count_refusal(refusal)
        self.discarding = True
        self.last_reply = refusal.reply
        if self.receiving != BODY:
            self.scope, self.headers = None, TRAILERS  # type: ignore[assignment]  # there may be many of them
            if self.answered:
                self.send_last_reply()
        elif self.pipeline and self.pipeline[0][0] is self.cycle:
            self.pipeline.popleft()  # the refused request, which waits for earlier ones
        else:
            if self.answered:
                self.last_reply = b""
            else:  # its endpoint is told that the client has disconnected, and its reply is dropped
                self.cycle.disconnected = True
                self.cycle.waiting_for_100_continue = False
                self.cycle.message_event.set()
            self.send_last_reply()

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
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        transport.write_eof()

    def keep_alive_no_longer(self) -> None:
        if self.cycle is not None:
            self.cycle.keep_alive = False

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
        """Return whether the client has disconnected, not only closed its sending side."""
        events = self.events()
        if events & select.POLLRDHUP and not self.probed:
            self.probe()
            events = self.events()  # a client on the same machine has answered already
        return bool(events & (select.POLLHUP | select.POLLERR))

    def probe(self) -> None:
        """Send an interim reply to a half-closed client: if it has gone, its kernel resets the connection."""
        # HTTP/1.1 clients ignore it (RFC 9110 section 15.2); HTTP/1.0 has none.
        self.probed = True
        if self.scope is not None and self.scope["http_version"] == "1.1" and not self.write_paused:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # The endpoint

    @staticmethod
    def has_message(receive: Receive) -> bool:
        """Return whether the `receive` of a request returns at once, because a part of the body has arrived."""
        cycle = getattr(receive, "__self__", None)
        return isinstance(cycle, RequestResponseCycle) and cycle.message_event.is_set()

    def send_whole(
        self, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes, waited: bool
    ) -> bool:
        """Write a reply with one call instead of two messages; return False if the client has disconnected.

        Only if the request has `waited`, or the client has half-closed, the kernel is asked, which takes microseconds.

        `send` belongs to the request's cycle, which afterwards is in the same state as after a call of `send`. Two
        messages, and the two small writes that follow from them, make a request with one response a sixth slower
        (docs/decisions/uvicorn-protocol-extended.md).
        """
        cycle = send.__self__  # type: ignore[attr-defined]
        assert isinstance(cycle, RequestResponseCycle)
        transport = self.transport
        if cycle.disconnected or cycle.response_started:
            return False
        if transport.is_closing() or ((waited or self.half_closed) and self.has_disconnected()):
            cycle.disconnected = True  # uvicorn reports it only to the latest request
            transport.abort()
            return False
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
        if not cycle.keep_alive and self.last_reply is None:
            self.finish()
        cycle.on_response()
        return True


def protocol_class(guard: Guard) -> type[GuardedProtocol]:
    return type("Guarded", (GuardedProtocol,), {"guard": guard})

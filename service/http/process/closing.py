"""Closing of connections without losing the last reply, even if the client is still sending or reads slowly.

Closing a socket while bytes from the client are unread or in flight resets the connection, and the client loses the
reply. So a connection whose request was not read completely lingers: the sending side is closed, and input is dropped
until the client closes its side, for a bounded time and size.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from ..wire.problems import Problem
from .connection_limits import MAX_LINGERING, Guard, Refused, problem_refusal
from .sockets import events_of
from .uvicorn_protocol import UvicornProtocol

__all__ = ["BODY", "HEAD", "IDLE", "ClosingProtocol"]

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

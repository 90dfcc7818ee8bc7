"""How a connection ends: with its last reply delivered, also to a client that is still sending or reads slowly.

A server that closes a connection while bytes of its client lie unread, or are still on their way, resets it, and the
client loses the reply that it was about to read. So a connection whose request was not read to its end lingers: the
sending side is closed, and what comes is dropped until the client closes its own, for a bounded time and size.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..request.exchange import CONNECTION
from ..wire.problems import Problem
from .connection_limits import MAX_LINGERING, Guard, Refused, events_of, refused

__all__ = ["BODY", "HEAD", "IDLE", "EndingProtocol"]

LAST_LINGER_SECONDS = 2.0
"""Time for a connection that lingers once the server has stopped to listen."""

IDLE, HEAD, BODY = range(3)
"""What a connection receives at the moment."""


class EndingProtocol(HttpToolsProtocol):
    """uvicorn's protocol with ends that lose nothing, and with the limits of time of its class attribute `guard`."""

    guard: Guard
    receiving = IDLE
    messages = 0
    """Requests that have begun on this connection."""
    farewell: Callable[[], None] | None = None
    """Called once when the client has gone."""
    unsent_since = 0.0
    """When the last reply was found not to fit into the kernel's buffers."""
    unsent_bytes = 0
    """How much of it that was."""
    discarding = False
    """Whether what arrives is dropped: after a refusal, and after the last reply."""
    discarded = 0
    parting: bytes | None = None
    """What is said before the connection ends, once the requests that came earlier are answered."""
    lingering = False
    lingers_until = 0.0
    half_closed = False
    """Whether the client has closed its sending side, and waits for a reply."""
    probed = False
    seen = (-1, IDLE, False)
    since = 0.0
    """What `inspect` found, and since when it has been so."""

    # What the transport says

    def pause_writing(self) -> None:
        """Called as soon as something that was written could not be sent at once."""
        super().pause_writing()
        self.unsent_since = time.monotonic()
        self.unsent_bytes = self.transport.get_write_buffer_size()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open for the replies to whole requests: some clients close their sending side after the last one."""
        cycle = self.cycle
        cut_short = self.receiving and not self.discarding
        if self.lingering or cut_short or cycle is None or cycle.response_complete:
            return False
        self.half_closed = True
        if self.parting is None:
            cycle.keep_alive = False
        self.probe()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.farewell is not None:
            self.farewell()
        if self.lingering:
            self.guard.lingering -= 1
        if self.scope is not None:  # the two name each other: let go at once, they need not be found by the collector
            self.scope.pop(CONNECTION, None)  # type: ignore[misc]

    def discard(self, nbytes: int) -> None:
        """Drop what has arrived."""
        self.discarded += nbytes
        if self.discarded > self.guard.linger_bytes:
            self.transport.abort()

    def on_response_complete(self) -> None:
        if self.lingering:
            return
        if self.parting is not None and not self.pipeline:
            self.part()
            return
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()  # what is lined up comes first, or the line would have no end

    # What has to end

    def refuse(self, refusal: Refused) -> None:
        """Read nothing more, answer the requests that came before, say why the connection ends, and close it."""
        self.guard.turn_away(refusal)
        self.discarding = True
        self.parting = refusal.reply
        cycle = self.cycle
        if self.receiving != BODY:
            if cycle is None or cycle.response_complete:
                self.part()
        elif self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()  # it has not begun
        else:
            if cycle.response_complete:
                self.parting = b""
            else:  # its endpoint shall not write any more
                cycle.disconnected = True
                cycle.waiting_for_100_continue = False
                cycle.message_event.set()
            self.part()

    def part(self) -> None:
        """Say the last words, and close."""
        reply, self.parting = self.parting, None
        if reply and not self.transport.is_closing():
            self.transport.write(reply)
        self.finish()

    def finish(self) -> None:
        """Close the connection after its last reply, at once where the client has nothing more to send."""
        transport = self.transport
        if self.lingering or transport.is_closing():
            return
        sending = (self.receiving or self.discarding or self.has_unread()) and not self.half_closed
        if not sending or self.guard.lingering >= MAX_LINGERING:
            transport.close()
            return
        self.lingering = self.discarding = True
        self.guard.lingering += 1
        self.lingers_until = time.monotonic() + self.guard.body_seconds
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        transport.write_eof()

    def is_expected(self) -> bool:
        """Whether a request may be on its way: the first one of the connection, or one that has begun to arrive."""
        if self.lingering or self.discarding or self.transport.is_closing():
            return False
        return not self.messages or self.receiving == HEAD or (self.receiving == IDLE and self.has_unread())

    def has_unread(self) -> bool:
        return bool(events_of(self.transport) & select.POLLIN)

    def shutdown(self) -> None:
        """Called when the server has stopped to listen: close the connection if it is idle, or else after its reply."""
        if self.lingering:
            self.lingers_until = min(self.lingers_until, time.monotonic() + LAST_LINGER_SECONDS)
        elif self.transport.is_closing() or self.parting is not None:
            return  # it closes already
        elif self.cycle is not None and not self.cycle.response_complete:
            self.cycle.keep_alive = False
        elif self.receiving != HEAD and (self.receiving == BODY or not self.has_unread()):
            self.finish()

    # What is looked at once a second

    def inspect(self, now: float) -> None:
        """End the connection if it has received one head, one body, or its client one reply, for too long."""
        if self.flow.write_paused:
            if now - self.unsent_since > self.guard.reply_seconds(
                self.unsent_bytes
            ):  # whatever part of the reply was taken meanwhile
                self.guard.rejected("too-slow")
                self.transport.abort()
        elif self.lingering:
            if now > self.lingers_until:
                self.transport.abort()
        elif (self.farewell is not None or self.half_closed) and self.has_left():
            self.transport.abort()
        elif not self.discarding:
            self.inspect_receiving(now)

    def inspect_receiving(self, now: float) -> None:
        answered = self.cycle is None or self.cycle.response_complete
        seen = (self.messages, self.receiving, answered)
        if seen != self.seen:
            self.seen, self.since = seen, now
            return
        waited = now - self.since
        if self.receiving == HEAD:
            if waited > self.guard.head_seconds:
                self.refuse(refused(Problem("too-slow", "The head did not arrive in time.")))
        elif self.receiving == BODY:
            # Until the reply the endpoint keeps the time; here the rest of a body is waited for after it.
            if waited > self.guard.body_seconds and answered:
                self.guard.rejected("too-slow")
                self.transport.close()
        elif waited > self.guard.idle_seconds and answered:
            # Before its first request too: a busy trainer may open it long before it comes to write.
            self.guard.rejected("too-slow")
            self.transport.close()  # without a word, which would be taken for the reply to a request that comes now

    def has_left(self) -> bool:
        """Whether the client has gone, and has not only closed its sending side."""
        events = events_of(self.transport)
        if events & select.POLLRDHUP and not self.probed:
            self.probe()
        return bool(events & (select.POLLHUP | select.POLLERR))

    def probe(self) -> None:
        """Send something to a client that sends no more: if nobody is there to read it, the connection is reset.

        An interim reply, which every client of HTTP/1.1 passes over (RFC 9110 section 15.2). Those of HTTP/1.0 do not
        know any, so whether they have gone is seen when they are answered.
        """
        self.probed = True
        if self.scope["http_version"] == "1.1" and not self.flow.write_paused:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

"""The limits of every connection, and how it is said that one is passed."""

from __future__ import annotations

import asyncio
import logging
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..request.exchange import request_id
from ..wire.problems import MEDIA_TYPE, Problem

__all__ = ["Guard", "Refused", "events_of", "head_too_large", "no_descriptors", "not_http", "refused", "too_many_ahead"]

log = logging.getLogger("assay")

LOG_SECONDS = 10.0
"""Least time between two lines of the log about the same kind of refusal."""

RETRY = (b"retry-after", b"1")

MAX_LINGERING = 1024
"""Connections that are read on after their last reply."""

CROWDED_SECONDS = 2.0
CROWDED_RATE = 4 << 20
"""Bytes a second, and seconds on top, in which a reply must be taken while too many are unread."""

LINGER_BYTES = 1 << 24
LINGER_BODIES = 4
"""Limit of what is read and dropped of one of them, in bytes and in times the longest body: the larger holds."""


@dataclass
class Guard:
    """The limits of every connection, and who counts what is turned away."""

    max_head_bytes: int
    max_body_bytes: int
    head_seconds: float
    body_seconds: float
    idle_seconds: float
    max_descriptor: int
    """Connections whose descriptor has this number or a higher one are refused."""
    rejected: Callable[[str], None]
    replies_full: Callable[[], bool] = lambda: False
    """Whether too many bytes of replies are unread."""
    lingering: int = 0
    """Connections that are read on after their last reply."""
    _logged: dict[str, float] = field(default_factory=dict)

    def reply_seconds(self, nbytes: int) -> float:
        """Return the time for a reply of `nbytes` to be taken; it is short while unread replies hold up others."""
        usual = self.body_seconds * max(1.0, nbytes / self.max_body_bytes)
        return min(usual, CROWDED_SECONDS + nbytes / CROWDED_RATE) if self.replies_full() else usual

    @property
    def linger_bytes(self) -> int:
        """Bytes that are read and dropped of a connection that lingers."""
        return max(LINGER_BYTES, LINGER_BODIES * self.max_body_bytes)

    def turn_away(self, refused: Refused) -> None:
        """Count a refusal; those that callers cannot make out from a status are logged too, if not too often."""
        self.rejected(refused.reason)
        now = time.monotonic()
        if refused.log and now - self._logged.get(refused.reason, -LOG_SECONDS) >= LOG_SECONDS:
            self._logged[refused.reason] = now
            log.warning("%s (at most one such line in %d s)", refused.log, LOG_SECONDS)


class Refused(Exception):
    """Raised inside the parser: this connection has to end, with this reply."""

    def __init__(self, reason: str, reply: bytes, log: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.reply = reply
        self.log = log


def refused(problem: Problem, reason: str = "", log: str = "") -> Refused:
    """A refusal with a problem document, counted as `reason` or else as the problem's kind."""
    return Refused(reason or problem.kind, written(problem), log)


def head_too_large() -> Refused:
    detail = "The request line and headers are longer than `max_head_bytes`, or too many."
    return refused(Problem("head-too-large", detail))


def not_http(detail: str) -> Refused:
    """In plain text: a client that does not speak HTTP/1.1 hardly reads problem documents."""
    body = detail.encode("ascii")
    head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
    return Refused("not-http", STATUS_LINE[400] + head + body)


def too_many_ahead() -> Refused:
    problem = Problem("over-capacity", "Too many requests were sent ahead of their replies.", headers=[RETRY])
    log = "a connection was closed: its client sent too many requests ahead of their replies"
    return refused(problem, "pipelined", log)


def no_descriptors(most: int) -> Refused:
    problem = Problem("over-capacity", "The service has too many connections.", headers=[RETRY])
    log = f"connections are refused: {most} file descriptors are taken; allow more (ulimit -n, LimitNOFILE)"
    return refused(problem, "descriptors", log)


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


def events_of(transport: asyncio.Transport) -> int:
    """What the kernel knows of a connection: a set of bits of POLLIN, POLLRDHUP, POLLHUP and POLLERR.

    POLLRDHUP: the client has closed its sending side, also where what it has sent before is not read yet. (Of a body
    longer than the kernel's buffers the end is met when its turn has come.)
    """
    poller = select.poll()
    poller.register(transport.get_extra_info("socket").fileno(), select.POLLIN | select.POLLRDHUP)
    return sum(events for _, events in poller.poll(0))

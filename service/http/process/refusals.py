"""What a connection answers before it is closed, and the limits that all connections share."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus

from ...config import ServerSettings
from ...wire.media_types import PROBLEM_JSON
from ...wire.problems import Problem
from ..request.exchange import request_id
from .balance import Balance

log = logging.getLogger("assay")

LOG_SECONDS = 10.0
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
    balance: Balance | None = None
    """With several workers: counts the connections of this one."""
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

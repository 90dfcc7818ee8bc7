"""Intake of a request: whether it is admitted, and its body.

In this order: deadline, readiness, media type, query, encoding, and the body, which is counted while it arrives (see
`admission.py`). Every route that takes a body has an `Intake`, whose result is `exchange.request_body`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from time import perf_counter

from starlette.types import Message

from ...config import ServerSettings
from ...errors import Issue
from ...wire.media_types import JSON, Body, check_encoding, media_type_of
from ...wire.problems import Problem, invalid_request, too_large
from ...wire.work import is_light
from .admission import Admission
from .exchange import CONNECTION, ClientGone, Exchange, deadline_exceeded, deadline_of
from .readiness import Readiness
from .run_names import read_run

COMPRESSED = 4
"""Bytes charged per compressed byte: protocols compress to a third or a quarter. The number of threads bounds bodies
that expand more: a thread decompresses one body at a time."""

LONG_REST = 1 << 16
"""Bytes of a body that are worth receiving without uvicorn's parser, which copies each of them three times."""


def refuse_query(exchange: Exchange, media_type: bytes) -> None:
    query = exchange.scope["query_string"]
    if query and media_type == JSON and query.strip(b"&"):
        issue = Issue("query", "unknown_field", "settings of a JSON request belong in its body")
        raise Problem("invalid-request", "JSON requests take no query parameters.", [issue])


@dataclass
class Intake:
    settings: ServerSettings
    readiness: Readiness
    admission: Admission
    _: KW_ONLY
    media_types: tuple[bytes, ...] = (JSON,)
    max_bytes: int = sys.maxsize
    """The limit of this route, besides the server's `max_body_bytes`."""
    check_query: Callable[[Exchange, bytes], None] = refuse_query
    """Called with the media type before the body is read, if there is a query; raises Problem."""
    named_runs: bool = False
    """True if requests may name their run (see `read_run`), which `check_query` and the endpoint do not see."""

    def __post_init__(self) -> None:
        self.max_bytes = min(self.max_bytes, self.settings.max_body_bytes)

    async def take(self, exchange: Exchange) -> Body:
        """Read the body of a request once the service is ready and admits it; raise Problem and ClientGone."""
        head, query = exchange.raw_headers, exchange.scope["query_string"]
        max_seconds = exchange.max_queue_seconds or self.settings.deadline_seconds
        deadline = exchange.deadline = deadline_of(exchange.started, head.get(b"x-request-timeout"), max_seconds)
        if self.readiness.starting and exchange.max_queue_seconds is not None:
            await self.readiness.wait_until_started(deadline.left)
        self.readiness.check()
        media_type = media_type_of(head.get(b"content-type", b""), self.media_types)
        if self.named_runs and (query or b"x-assay-run" in head):
            self._take_run(exchange, media_type)
        if query:
            self.check_query(exchange, media_type)
        encoding = head.get(b"content-encoding", b"")
        if encoding:
            encoding = check_encoding(encoding)
        data = await self._read(exchange, compressed=bool(encoding))
        inline = not encoding and media_type == JSON and is_light(data, self.settings.inline_bytes)
        if inline:
            deadline.check()
        return Body(data, encoding, media_type, inline)

    def _take_run(self, exchange: Exchange, media_type: bytes) -> None:
        """Set the run of the exchange, and remove it from the query; raise Problem with every error of the query."""
        scope = exchange.scope
        header = exchange.raw_headers.get(b"x-assay-run")
        exchange.run, scope["query_string"], issues = read_run(header, scope["query_string"])
        if issues:
            exchange.run = ""
            try:
                self.check_query(exchange, media_type)
            except Problem as problem:
                issues += problem.issues
            raise invalid_request(issues)

    async def _read(self, exchange: Exchange, compressed: bool) -> bytes | bytearray:
        """Return the body as it was sent, once it is admitted.

        Raise Problem `too-large` and `over-capacity` as soon as possible, before the first byte if Content-Length says
        so. The server discards the rest of a refused body: closing the connection instead could lose the reply.
        """
        length = exchange.raw_headers.get(b"content-length", b"")
        declared = int(length) if length.isdigit() else 0
        if declared > self.max_bytes:
            raise too_large(self.max_bytes)
        admission, left = self.admission, self.settings.body_seconds
        weight = COMPRESSED if compressed else 1
        if declared >= admission.short:
            exchange.short = False
            await admission.admit(exchange, weight * declared)
        connection = exchange.scope.get(CONNECTION)
        body, total, diverted = bytearray(), 0, None
        try:
            while True:
                if connection is not None and connection.has_message(exchange.receive_message):
                    message = await exchange.receive_message()  # the usual case of short bodies: needs no timer
                else:
                    started = perf_counter()
                    message = await receive(exchange, left)
                    left -= perf_counter() - started
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part: bytes = message.get("body", b"")
                more = message.get("more_body", False)
                nbytes = len(part) if diverted is None else diverted.take()  # which are in `body` already
                total += nbytes
                if total > self.max_bytes:
                    raise too_large(self.max_bytes)
                if more or body or total >= admission.short:  # not one message that is scored at once
                    await admission.charge(exchange, nbytes, total, declared or self.max_bytes, more, weight)
                if not more:
                    break
                body += part
                if diverted is None and connection is not None and declared - total >= LONG_REST:
                    diverted = connection.divert(exchange.receive_message, body, declared - total)
        finally:
            if diverted is not None:
                diverted.body = None
        if exchange.short:
            await admission.loop_budget.take(exchange.times)
        if not body:
            return part
        body += part
        return body


async def receive(exchange: Exchange, seconds: float) -> Message:
    """Return the next message; raise Problem `too-slow` after `seconds` or if the permit says so, and `deadline`."""
    permit, until_deadline = exchange.permit, exchange.deadline.left
    try:
        async with asyncio.timeout(min(seconds, until_deadline)) as timer:
            if permit is not None:
                permit.timer = timer
            return await exchange.receive_message()
    except TimeoutError:
        if permit is not None and permit.too_slow:
            raise too_slow("The body arrives too slowly, while others wait.") from None
        raise (too_slow() if seconds < until_deadline else deadline_exceeded()) from None
    finally:
        if permit is not None:
            permit.timer = None


def too_slow(detail: str = "The body did not arrive in time.") -> Problem:
    return Problem("too-slow", detail, headers=[(b"connection", b"close")])

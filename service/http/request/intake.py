"""Checks of every request with a body, before its endpoint is called.

In this order: deadline, readiness, media type, query, encoding, and the body, which is admitted by its size before it
is read. Every route that takes a body has an `Intake`, and stores the body as `exchange.request_body`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...config import ServerSettings
from ...errors import Issue
from ..wire.compression import JSON, Body, check_encoding, media_type_of
from ..wire.problems import Problem
from .admission import Admission
from .body import BodyReader
from .deadline import deadline_of
from .exchange import Exchange
from .readiness import Readiness

__all__ = ["Intake"]


def refuse_query(exchange: Exchange, media_type: bytes) -> None:
    """Raise Problem `invalid-request` if a JSON request has a query."""
    query = exchange.scope["query_string"]
    if query and media_type == JSON and query.strip(b"&"):
        issue = Issue("query", "unknown_field", "settings of a JSON request belong in its body")
        raise Problem("invalid-request", "JSON requests take no query parameters.", [issue])


class Intake:
    """Reads the bodies of one route.

    `max_bytes` is a limit below the server's `max_body_bytes`. `check_query` is called with the media type before the
    body is read, and raises Problem.
    """

    def __init__(
        self,
        settings: ServerSettings,
        readiness: Readiness,
        admission: Admission,
        media_types: tuple[bytes, ...] = (JSON,),
        max_bytes: int | None = None,
        check_query: Callable[[Exchange, bytes], None] = refuse_query,
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._media_types = media_types
        self._check_query = check_query
        limit = settings.max_body_bytes if max_bytes is None else min(max_bytes, settings.max_body_bytes)
        self._reader = BodyReader(admission, settings.body_seconds, limit)

    async def take(self, exchange: Exchange) -> Body:
        """Read the body of a request once the service is ready and the body is admitted.

        Raise Problem for every error except in the content of the body, and ClientGone.
        """
        max_seconds = exchange.max_queue_seconds or self._settings.deadline_seconds
        timeout = exchange.raw_headers.get(b"x-request-timeout")
        deadline = exchange.deadline = deadline_of(exchange.started, timeout, max_seconds)
        if self._readiness.starting and exchange.max_queue_seconds is not None:
            await self._readiness.wait_until_started(deadline.left)
        self._readiness.check()
        media_type = media_type_of(exchange.header(b"content-type"), self._media_types)
        self._check_query(exchange, media_type)
        encoding = check_encoding(exchange.header(b"content-encoding"))
        data = await self._reader.read(exchange, encoding)
        inline = not encoding and media_type == JSON and len(data) < self._settings.inline_bytes
        if inline:
            deadline.check()
        return Body(data, encoding, media_type, inline)

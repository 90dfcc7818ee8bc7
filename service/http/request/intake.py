"""The one way in: what every request with a body passes before its endpoint sees it.

In this order: the request's deadline, readiness, media type, query, encoding, and the body, which is admitted by its
size before it is read. Every route that takes a body has an `Intake`, and its endpoint finds the `Body` as
`exchange.taken`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ...errors import Issue
from ..wire.media_types import JSON, media_type_of
from ..wire.problems import Problem
from .body import check_encoding, decompress, read_body
from .deadline import Deadline
from .exchange import Exchange

__all__ = ["Body", "Intake"]


class Body(NamedTuple):
    """A body as it arrived, with what the request's headers say about it. It pickles."""

    data: bytes | bytearray
    encoding: bytes
    """`gzip`, `zstd`, or empty."""
    media_type: bytes
    inline: bool
    """Whether it is short and not compressed, so that the event loop's thread may answer it."""

    def plain(self, limit: int) -> bytes | bytearray:
        """Return the body without its compression; raises Problem `bad-encoding`, and `too-large` above `limit`."""
        return decompress(self.data, self.encoding, limit)


def refuse_query(exchange: Exchange, media_type: bytes) -> None:
    """Raise Problem `invalid-request` for a query: JSON requests say everything in their body."""
    query = exchange.scope["query_string"]
    if query and media_type == JSON and query.strip(b"&"):
        issue = Issue("query", "unknown_field", "settings of a JSON request belong in its body")
        raise Problem("invalid-request", "JSON requests take no query parameters.", [issue])


@dataclass(frozen=True, slots=True)
class Intake:
    """What a route takes."""

    media_types: tuple[bytes, ...] = (JSON,)
    max_bytes: int | None = None
    """A limit below the server's `max_body_bytes`; None for that one."""
    check_query: Callable[[Exchange, bytes], None] = refuse_query
    """Called with the media type before the body is read; raises Problem."""

    async def take(self, exchange: Exchange) -> Body:
        """Read the request's body, as soon as the service is ready and there is room for it.

        Raises Problem for everything that is wrong with a request apart from what its body says, and ClientGone.
        """
        service = exchange.service
        server = service.config.server
        deadline = exchange.deadline = Deadline(exchange, server.deadline_seconds)
        if service.readiness.starting and exchange.patience is not None:
            await service.readiness.over(deadline.left)
        service.readiness.check()
        media_type = media_type_of(exchange.header(b"content-type"), self.media_types)
        self.check_query(exchange, media_type)
        encoding = check_encoding(exchange.header(b"content-encoding"))
        limit = self.limit(server.max_body_bytes)
        data = await read_body(exchange, limit, deadline)
        inline = not encoding and len(data) < server.inline_bytes
        if inline:
            deadline.check()
        return Body(data, encoding, media_type, inline)

    def limit(self, max_body_bytes: int) -> int:
        """Return the most bytes a body may have here, before and after decompression."""
        return max_body_bytes if self.max_bytes is None else min(self.max_bytes, max_body_bytes)

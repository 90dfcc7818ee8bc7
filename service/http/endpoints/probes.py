"""Health probes and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST

from ..request.exchange import Exchange
from ..request.readiness import Readiness
from ..wire.problems import Problem

__all__ = ["Probes"]

LIVE = b'{"status":"live"}'
READY = b'{"status":"ready"}'
PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TEXT = CONTENT_TYPE_LATEST.encode("ascii")


class Probes:
    """The probes of one process; `exposition` returns the metrics of all, as OpenMetrics if its argument is true."""

    def __init__(self, readiness: Readiness, exposition: Callable[[bool], Awaitable[bytes]]) -> None:
        self._readiness = readiness
        self._exposition = exposition
        self._turn = asyncio.Lock()

    async def live(self, exchange: Exchange) -> None:
        """Return 200 while the process can answer at all."""
        await exchange.reply(LIVE)

    async def ready(self, exchange: Exchange) -> None:
        """Return 200 once the kernels are compiled and have passed the self-test; 503 before, and after SIGTERM."""
        self._readiness.check()
        if self._readiness.draining:
            raise Problem("not-ready", "The service is shutting down.")
        await exchange.reply(READY)

    async def metrics(self, exchange: Exchange) -> None:
        """Return the metrics of all processes as Prometheus text, or as OpenMetrics if the client accepts it."""
        openmetrics = asks_for_openmetrics(exchange.header(b"accept"))
        body = await self._exposition(openmetrics)
        async with self._turn:  # many clients may have waited for this: let other requests in between
            await asyncio.sleep(0)
        await exchange.reply(body, OPENMETRICS_TEXT if openmetrics else PROMETHEUS_TEXT)


def asks_for_openmetrics(accept: bytes) -> bool:
    for entry in accept.lower().split(b","):
        media_type, *parameters = (part.strip() for part in entry.split(b";"))
        pairs = (parameter.partition(b"=") for parameter in parameters)
        versions = {value.strip(b' "') for name, _, value in pairs if name.strip() == b"version"}
        if media_type == b"application/openmetrics-text" and versions <= {b"1.0.0"}:
            return True
    return False

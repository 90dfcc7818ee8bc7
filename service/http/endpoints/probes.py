"""Health probes and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from ..request.exchange import Exchange
from ..request.readiness import Readiness
from ..request.telemetry.merged_metrics import Families, MergedRegistry
from ..wire.problems import Problem

__all__ = ["Channel", "Probes"]

LIVE = b'{"status":"live"}'
READY = b'{"status":"ready"}'

PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
"""The media type of Prometheus' text format."""

write_openmetrics: Callable[[Any], bytes] = openmetrics.generate_latest


class Channel(Protocol):
    """A worker's access to the metrics of all workers."""

    def merged(self) -> Awaitable[Families]: ...


class Probes:
    """The probes of one process; with a `channel`, its metrics are those of all workers."""

    def __init__(self, readiness: Readiness, registry: CollectorRegistry, channel: Channel | None = None) -> None:
        self._readiness = readiness
        self._registry = registry
        self._channel = channel

    async def live(self, exchange: Exchange) -> None:
        """Return 200 while the process can answer at all."""
        await exchange.reply(LIVE)

    async def ready(self, exchange: Exchange) -> None:
        """Return 200 once the kernels are compiled and have passed the self-test; 503 before, and after SIGTERM."""
        self._readiness.check()
        if self._readiness.draining:
            raise Problem("not-ready", "The service is shutting down.", headers=[(b"retry-after", b"1")])
        await exchange.reply(READY)

    async def metrics(self, exchange: Exchange) -> None:
        """Return the metrics of all processes as Prometheus text, or as OpenMetrics if the client accepts it."""
        registry: Any = self._registry if self._channel is None else MergedRegistry(await self._channel.merged())
        if asks_for_openmetrics(exchange.header(b"accept")):
            await exchange.reply(write_openmetrics(registry), openmetrics.CONTENT_TYPE_LATEST.encode("ascii"))
        else:
            await exchange.reply(generate_latest(registry), PROMETHEUS_TEXT)


def asks_for_openmetrics(accept: bytes) -> bool:
    """Return True if an Accept header names OpenMetrics, in its version 1.0.0 or in any."""
    for given in accept.lower().split(b","):
        media_type, *parameters = (part.strip() for part in given.split(b";"))
        pairs = (parameter.partition(b"=") for parameter in parameters)
        versions = {value.strip(b' "') for name, _, value in pairs if name.strip() == b"version"}
        if media_type == b"application/openmetrics-text" and versions <= {b"1.0.0"}:
            return True
    return False

"""Probes and metrics: what platforms ask of the process."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from ..request.exchange import Exchange
from ..request.readiness import Readiness
from ..request.telemetry.merged_metrics import Families, Merged
from ..wire.problems import Problem

__all__ = ["Channel", "Probes"]

LIVE = b'{"status":"live"}'
READY = b'{"status":"ready"}'

PROMETHEUS_TEXT = b"text/plain; version=0.0.4; charset=utf-8"
"""The media type of Prometheus' text format."""


class Channel(Protocol):
    """How a worker process reaches the metrics of all workers."""

    def merged(self) -> Awaitable[Families]: ...


class Probes:
    """The probes of one process; with a `channel`, its metrics are those of all workers."""

    def __init__(self, readiness: Readiness, registry: CollectorRegistry, channel: Channel | None = None) -> None:
        self._readiness = readiness
        self._registry = registry
        self._channel = channel

    async def live(self, exchange: Exchange) -> None:
        """200 while the process can answer at all."""
        await exchange.reply(LIVE)

    async def ready(self, exchange: Exchange) -> None:
        """200 once every kernel is compiled and has given its known rewards; 503 before, and from SIGTERM on."""
        self._readiness.check()
        if self._readiness.draining:
            raise Problem("not-ready", "The service is shutting down.", headers=[(b"retry-after", b"1")])
        await exchange.reply(READY)

    async def metrics(self, exchange: Exchange) -> None:
        """The metrics as Prometheus text, or as OpenMetrics where the client asks for it: those of all processes."""
        registry: Any = self._registry if self._channel is None else Merged(await self._channel.merged())
        if asks_for_openmetrics(exchange.header(b"accept")):
            await exchange.reply(openmetrics.generate_latest(registry), openmetrics.CONTENT_TYPE_LATEST.encode("ascii"))
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

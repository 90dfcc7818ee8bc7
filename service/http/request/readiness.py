"""Whether the process serves at all, and whether it is ready to score."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from time import perf_counter

from ..wire.problems import Problem
from .exchange import Exchange
from .telemetry.tracebacks import stack_of

__all__ = ["Readiness", "live", "ready"]

log = logging.getLogger("assay")

LIVE = b'{"status":"live"}'
INTERVAL = 0.05
"""Seconds between two looks at whether the preparation has ended."""

READY = b'{"status":"ready"}'


class Readiness:
    """What stands between the process and its first request, as a sentence; None once nothing does.

    The states: starting, then ready or failed for good, and draining from SIGTERM on.
    """

    def __init__(self) -> None:
        self.obstacle: str | None = "The kernels are being compiled."
        self.starting = True
        """Whether it is worth while to wait: until the preparation has ended, well or not."""
        self.draining = False

    def start(self, prepare: Callable[[], None]) -> threading.Thread:
        """Run `prepare` in a thread of its own; ready when it returns, never if it raises."""
        thread = threading.Thread(target=self._prepare, args=(prepare,), name="assay-warmup", daemon=True)
        thread.start()
        return thread

    def _prepare(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except Exception as error:
            self.obstacle = f"The start failed ({type(error).__name__}); the log has the reason."
            log.error("not ready, for good: %s\n%s", error, stack_of(error))
        else:
            self.obstacle = None
        self.starting = False

    async def over(self, seconds: float) -> None:
        """Wait until the preparation has ended, but no longer than so many seconds."""
        end = perf_counter() + seconds
        while self.starting and perf_counter() < end:
            await asyncio.sleep(INTERVAL)

    def check(self) -> None:
        """Raise Problem `not-ready` while there is an obstacle to scoring; draining is none."""
        if self.obstacle is not None:
            raise Problem("not-ready", self.obstacle, headers=[(b"retry-after", b"1")])


async def live(exchange: Exchange) -> None:
    """200 while the process can answer at all."""
    await exchange.reply(LIVE)


async def ready(exchange: Exchange) -> None:
    """200 once every kernel is compiled and has given its known rewards; 503 before, and from SIGTERM on."""
    readiness = exchange.service.readiness
    readiness.check()
    if readiness.draining:
        raise Problem("not-ready", "The service is shutting down.", headers=[(b"retry-after", b"1")])
    await exchange.reply(READY)

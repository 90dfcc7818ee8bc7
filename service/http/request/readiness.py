"""Whether the process is ready to score."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from time import perf_counter

from ...errors import format_traceback
from ...terminal import compiling
from ...wire.problems import Problem

log = logging.getLogger("assay")

POLL_SECONDS = 0.05


class Readiness:
    """The state of the process: starting, then ready or failed; draining after SIGTERM."""

    def __init__(self) -> None:
        self.obstacle: str | None = "The kernels are being loaded."
        """A sentence that says why the process cannot score; None once it is ready."""
        self.starting = True
        self.draining = False
        self.complete = True
        """False in a worker until all workers of the service listen."""

    def start(self, prepare: Callable[[], None]) -> threading.Thread:
        """Run `prepare` in a separate thread; become ready when it returns, never if it raises."""
        thread = threading.Thread(target=self._prepare, args=(prepare,), name="assay-warmup", daemon=True)
        thread.start()
        return thread

    def _prepare(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except Exception as error:
            log.error("the start failed: %s\n%s", error, format_traceback(error))  # before a reply refers to it
            self.obstacle = f"The start failed ({type(error).__name__}); the log has the reason."
        else:
            self.obstacle = None
        self.starting = False

    async def wait_until_started(self, seconds: float) -> None:
        end = perf_counter() + seconds
        while self.starting and perf_counter() < end:
            await asyncio.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Raise Problem `not-ready` while there is an obstacle to scoring; draining is not one."""
        if self.obstacle is None:
            return
        detail = self.obstacle
        if self.starting and (compiled := compiling()) is not None:
            detail = "The kernels are being compiled: {} of {} functions.".format(*compiled)
        raise Problem("not-ready", detail)

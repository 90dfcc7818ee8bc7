"""The code paths that score requests, and the function that chooses between them.

| body                        | path                | where                                       |
|-----------------------------|---------------------|---------------------------------------------|
| short JSON, common form     | fast path           | event loop, two kernel calls                |
| short JSON, any other form  | general path        | event loop                                  |
| short JSON with `configs`   | general path        | worker thread                               |
| long, compressed, or Arrow  | general path        | worker thread, kernels on all threads       |
| short rows of other tasks   | rewards of the task | event loop (`wire/other_tasks.py`)          |
| other rows of other tasks   | rewards of the task | separate process                            |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...rewards.scorer import Scorer
from ..wire.fast_path import FastPath
from ..wire.json_codec import Limits
from .exchange import Exchange
from .readiness import Readiness
from .worker_threads import WorkerThreads

__all__ = ["Paths"]

T = TypeVar("T")


class Paths:
    """The scorer of the default configuration, and the threads that it runs on."""

    def __init__(self, limits: Limits, readiness: Readiness, workers: WorkerThreads) -> None:
        self.limits = limits
        self._readiness = readiness
        self._workers = workers
        self._scorer: Scorer | None = None
        self.fast_path: FastPath
        """For the event loop's thread; set once the service is ready."""

    @property
    def scorer(self) -> Scorer:
        """The scorer of the default configuration; raises Problem `not-ready` until it is available."""
        self._readiness.check()
        assert self._scorer is not None
        return self._scorer

    def open(self, scorer: Scorer, inline_bytes: int) -> None:
        """Set the scorer, and score bodies below `inline_bytes` on the event loop."""
        self.fast_path = FastPath(scorer, inline_bytes, self.limits)
        self._scorer = scorer

    async def answer(self, exchange: Exchange, fast: Callable[[], T | None], general: Callable[[], T]) -> T:
        """Choose the path of a request; `fast` returns None for a request that only `general` can answer."""
        if not exchange.request_body.inline:
            return await self._workers.run(general, exchange)
        result = fast()
        return general() if result is None else result

    async def answer_in_thread(self, exchange: Exchange, general: Callable[[], T]) -> T:
        return await self._workers.run(general, exchange)

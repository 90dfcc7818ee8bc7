"""What stands for an exchange in tests without a connection."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

from assay.service.http.request.admission import Replies, ReplyShare
from assay.service.http.request.exchange import Deadline
from assay.service.wire.stage_times import StageTimes


class FakeExchange:
    """An exchange whose client stays until `leave` is called."""

    def __init__(self, seconds: float = 60, max_queue_seconds: float | None = None, *, short: bool = False) -> None:
        self.deadline = Deadline(perf_counter() + seconds)
        self.max_queue_seconds = max_queue_seconds
        self.short = short
        self.times = StageTimes()
        self.permit: Any = None
        self.share = ReplyShare(Replies(1 << 30))
        self._gone = asyncio.Event()
        self._callback: Callable[[], None] | None = None

    def leave(self) -> None:
        self._gone.set()
        if self._callback is not None:
            self._callback()

    def open_share(self) -> ReplyShare:
        return self.share

    def reserve_reply(self, nbytes: int) -> None:
        self.share.reserve(nbytes, self.deadline)

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback

    async def wait_for_disconnect(self) -> None:
        await self._gone.wait()


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test, which is a coroutine function, in an event loop."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run

"""Waiting for company: the first single call of a window leads, those that come within it share its request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from .batches import Entry
from .errors import Unavailable
from .exchange import GRACE

__all__ = ["AsyncGatherer", "SyncGatherer"]


K = TypeVar("K", bound=Hashable)


class OpenBatch:
    """Entries that wait for more of the same settings."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.full = threading.Event()


class SyncGatherer(Generic[K]):
    """Gathers the calls of several threads. The first sends for all: there is no thread of the client's own."""

    def __init__(self, window: float, most: int, send: Callable[[list[Entry], K], None]) -> None:
        self._window = window
        self._most = most
        self._send = send
        self._lock = threading.Lock()
        self._open: dict[K, OpenBatch] = {}

    def add(self, entry: Entry, key: K) -> None:
        """Join the batch of these settings. Returns at once, or as the first once the batch is settled."""
        with self._lock:
            batch = self._open.get(key)
            leads = batch is None
            if batch is None:
                batch = self._open[key] = OpenBatch()
            batch.entries.append(entry)
            if len(batch.entries) >= self._most:
                self._open.pop(key)
                batch.full.set()
        if leads:
            self._lead(batch, key)

    def _lead(self, batch: OpenBatch, key: K) -> None:
        try:
            batch.full.wait(self._window)
        finally:
            with self._lock:
                if self._open.get(key) is batch:
                    del self._open[key]
        try:
            self._send(batch.entries, key)
        except BaseException:  # such as Ctrl-C: the others shall not wait for ever
            for entry in batch.entries:
                entry.fail(Unavailable("no reward: the call that carried this one along was interrupted"))
            raise


class LoopBatch:
    """Entries of one event loop, and its two timers: a timer for each call would cost more than the call itself."""

    def __init__(self, loop: asyncio.AbstractEventLoop, closing: asyncio.TimerHandle) -> None:
        self.entries: list[Entry] = []
        self.closing = closing
        self._loop = loop
        self._earliest = float("inf")
        self._expiring: asyncio.TimerHandle | None = None

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        if entry.deadline < self._earliest:
            self._expire_at(entry.deadline)

    def settled(self) -> None:
        """Nobody waits any more."""
        if self._expiring is not None:
            self._expiring.cancel()

    def _expire_at(self, deadline: float) -> None:
        self.settled()
        self._earliest = deadline
        self._expiring = self._loop.call_later(max(0.0, deadline + GRACE - time.monotonic()), self._expire)

    def _expire(self) -> None:
        """Fail the entries whose time is over, and come back for the next."""
        now = time.monotonic()
        for entry in self.entries:
            if entry.deadline + GRACE <= now:
                entry.fail(Unavailable("no reward: the batch of this call was not answered within its deadline"))
        waiting = [entry.deadline for entry in self.entries if not entry.future.done()]
        if waiting:
            self._expire_at(min(waiting))


class AsyncGatherer(Generic[K]):
    """Gathers the calls of each event loop."""

    def __init__(self, window: float, most: int, send: Callable[[list[Entry], K], Coroutine[Any, Any, None]]) -> None:
        self._window = window
        self._most = most
        self._send = send
        self._open: dict[tuple[asyncio.AbstractEventLoop, K], LoopBatch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, entry: Entry, key: K) -> None:
        """Join the batch of these settings in the running loop; the entry's future is settled by its deadline."""
        loop = asyncio.get_running_loop()
        batch = self._open.get((loop, key))
        if batch is None:
            self._forget_ended_loops()
            batch = LoopBatch(loop, loop.call_later(self._window, self._close, loop, key))
            self._open[loop, key] = batch
        batch.add(entry)
        if len(batch.entries) >= self._most:
            self._close(loop, key)

    def _close(self, loop: asyncio.AbstractEventLoop, key: K) -> None:
        batch = self._open.pop((loop, key))
        batch.closing.cancel()
        task = loop.create_task(self._settle(batch, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _settle(self, batch: LoopBatch, key: K) -> None:
        try:
            await self._send(batch.entries, key)
        except BaseException as error:
            for entry in batch.entries:
                entry.fail(Unavailable(f"no reward: the batch of this call ended with {type(error).__name__}"))
            raise
        finally:
            batch.settled()

    def _forget_ended_loops(self) -> None:
        for loop, key in [known for known in self._open if known[0].is_closed()]:
            del self._open[loop, key]

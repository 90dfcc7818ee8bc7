"""Coalesces concurrent single calls: the first call of a window sends one request for all of them."""

from __future__ import annotations

import asyncio
import copy
import re
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from .errors import AssayError, InvalidRequest, Issue, TooLarge, Unavailable, invalid
from .results import Score, Scores
from .retries import Steps

__all__ = ["GRACE_SECONDS", "ITEM_PATH", "AsyncCoalescer", "Entry", "SyncCoalescer", "settle_entries"]

K = TypeVar("K", bound=Hashable)

GRACE_SECONDS = 0.25
"""Seconds after the deadline in which a batch may still report why it failed."""

ITEM_PATH = re.compile(r"(references|responses|reference_index)\[([0-9]+)\](.*)", re.DOTALL)


class AnyFuture(Protocol):
    """Interface of `asyncio.Future` and `concurrent.futures.Future`."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


@dataclass(eq=False, slots=True)
class Entry:
    """One single call in a batch."""

    response: str
    reference: str | bytes
    """Text, or JSON of its steps."""
    deadline: float
    record: object
    future: AnyFuture

    def resolve(self, score: Score) -> None:
        """Give the caller its score, unless the call has ended."""
        if not self.future.done():
            with suppress(InvalidStateError):  # cancelled in another thread meanwhile
                self.future.set_result(score)

    def fail(self, error: BaseException) -> None:
        """Give the caller its error, unless the call has ended."""
        if not self.future.done():
            with suppress(InvalidStateError):
                self.future.set_exception(error)


def settle_entries(entries: Sequence[Entry], score: Callable[[list[Entry]], Steps[Scores]]) -> Steps[None]:
    """Settle every entry; `score` returns the steps that score some of them.

    An error that names some entries fails only these, and the others are sent again. A batch that is too large is
    halved. Any other error fails all entries of the batch.
    """
    queue = [list(entries)]
    while queue:
        batch = [entry for entry in queue.pop() if not entry.future.done()]
        if not batch:
            continue
        try:
            scores = yield from score(batch)
        except AssayError as error:
            if isinstance(error, TooLarge) and len(batch) > 1:
                queue += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            else:
                queue.append(fail_named(batch, error))
        else:
            for entry, row in zip(batch, scores.rows(), strict=True):
                entry.resolve(row)


def fail_named(batch: list[Entry], error: AssayError) -> list[Entry]:
    """Fail the entries that the error names, or all if it names anything else; return the others."""
    named = issues_by_entry(batch, error)
    if not named:
        for entry in batch:
            entry.fail(copy.copy(error))  # a copy each: raising an exception changes its traceback
        return []
    for k, issues in named.items():
        record = batch[k].record
        batch[k].fail(invalid(issues, record=record, status=error.status, request_id=error.request_id))
    return [entry for k, entry in enumerate(batch) if k not in named]


def issues_by_entry(batch: list[Entry], error: AssayError) -> dict[int, list[Issue]]:
    """Return the issues by entry, as if each had been sent alone; empty if an issue names no entry."""
    named: dict[int, list[Issue]] = {}
    for issue in error.issues if isinstance(error, InvalidRequest) else ():
        found = ITEM_PATH.fullmatch(issue.path)
        if found is None or int(found[2]) >= len(batch):
            return {}
        own = issue._replace(path={"references": "reference"}.get(found[1], "response") + found[3])
        named.setdefault(int(found[2]), []).append(own)
    return named


class OpenBatch:
    """Entries with the same settings that wait for more of them."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.full = threading.Event()


class SyncCoalescer(Generic[K]):
    """Coalesces the calls of several threads. The first one sends the batch: the client starts no thread."""

    def __init__(self, window: float, max_batch: int, send: Callable[[list[Entry], K], None]) -> None:
        self._window = window
        self._max_batch = max_batch
        self._send = send
        self._lock = threading.Lock()
        self._open: dict[K, OpenBatch] = {}

    def add(self, entry: Entry, key: K) -> None:
        """Join the batch of these settings. Return at once, or, for its first entry, once the batch is settled."""
        with self._lock:
            batch = self._open.get(key)
            is_first = batch is None
            if batch is None:
                batch = self._open[key] = OpenBatch()
            batch.entries.append(entry)
            if len(batch.entries) >= self._max_batch:
                self._open.pop(key)
                batch.full.set()
        if is_first:
            self._send_after_window(batch, key)

    def _send_after_window(self, batch: OpenBatch, key: K) -> None:
        try:
            batch.full.wait(self._window)
        finally:
            with self._lock:
                if self._open.get(key) is batch:
                    del self._open[key]
        try:
            self._send(batch.entries, key)
        except BaseException:  # for example Ctrl-C: do not leave the others waiting
            for entry in batch.entries:
                entry.fail(Unavailable("no reward: the call that sent this batch was interrupted"))
            raise


class LoopBatch:
    """Entries of one event loop with two timers: one timer per call would cost more than the call."""

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

    def cancel_expiry(self) -> None:
        """Cancel the timer of the earliest deadline."""
        if self._expiring is not None:
            self._expiring.cancel()

    def _expire_at(self, deadline: float) -> None:
        self.cancel_expiry()
        self._earliest = deadline
        self._expiring = self._loop.call_later(max(0.0, deadline + GRACE_SECONDS - time.monotonic()), self._expire)

    def _expire(self) -> None:
        """Fail the entries whose deadline has passed, and schedule the next expiry."""
        now = time.monotonic()
        for entry in self.entries:
            if entry.deadline + GRACE_SECONDS <= now:
                entry.fail(Unavailable("no reward: the batch of this call was not answered within its deadline"))
        deadlines = [entry.deadline for entry in self.entries if not entry.future.done()]
        if deadlines:
            self._expire_at(min(deadlines))


class AsyncCoalescer(Generic[K]):
    """Coalesces the calls of each event loop."""

    def __init__(
        self, window: float, max_batch: int, send: Callable[[list[Entry], K], Coroutine[Any, Any, None]]
    ) -> None:
        self._window = window
        self._max_batch = max_batch
        self._send = send
        self._open: dict[tuple[asyncio.AbstractEventLoop, K], LoopBatch] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, entry: Entry, key: K) -> None:
        """Join the batch of these settings in the running loop; the entry is settled by its deadline."""
        loop = asyncio.get_running_loop()
        batch = self._open.get((loop, key))
        if batch is None:
            self._drop_closed_loops()
            batch = LoopBatch(loop, loop.call_later(self._window, self._close, loop, key))
            self._open[loop, key] = batch
        batch.add(entry)
        if len(batch.entries) >= self._max_batch:
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
            batch.cancel_expiry()

    def _drop_closed_loops(self) -> None:
        for loop, key in [key for key in self._open if key[0].is_closed()]:
            del self._open[loop, key]

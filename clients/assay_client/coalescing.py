"""Coalesces concurrent single calls: the first call of a window sends one request for all of them."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field

from .errors import AssayError, TooLarge, Unavailable, invalid, issues_by_position
from .results import Score, Scores
from .tasks import SCORE
from .transport.waiting import completed

BatchKey = tuple[str, "float | None", bool, bool]
"""Properties shared by the calls of a batch: settings of the reward, timeout, and whether they name their task and ask
for steps."""

GRACE_SECONDS = 0.25
"""Seconds after the deadline in which a batch may still report why it failed."""


@dataclass(eq=False, slots=True)
class PendingCall:
    response: str
    reference: str | bytes
    """Text, or JSON of anything else."""
    deadline: float
    record: object
    future: Future[Score] | asyncio.Future[Score]
    task: str = SCORE

    def settle(self, outcome: Score | AssayError) -> None:
        if self.future.done():
            return
        with suppress(InvalidStateError):  # cancelled in another thread meanwhile
            if isinstance(outcome, AssayError):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)


async def settle_entries(
    entries: Sequence[PendingCall], score: Callable[[list[PendingCall]], Awaitable[Scores]]
) -> None:
    """Settle every entry; `score` scores some of them.

    An error that names some entries fails only these, and the others are sent again. A batch that is too large is
    halved. Any other error fails all entries of the batch.
    """
    queue = [list(entries)]
    while queue:
        batch = [entry for entry in queue.pop() if not entry.future.done()]
        if not batch:
            continue
        try:
            scores = await score(batch)
        except AssayError as error:
            if isinstance(error, TooLarge) and len(batch) > 1:
                queue += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
            else:
                queue.append(fail_named(batch, error))
        else:
            for entry, row in zip(batch, scores.rows(), strict=True):
                entry.settle(row)


def fail_named(batch: list[PendingCall], error: AssayError) -> list[PendingCall]:
    """Fail the entries that the error names, or all if it names anything else; return the others."""
    named = issues_by_position(error, range(len(batch)))
    if not named:
        for entry in batch:
            entry.settle(copy.copy(error))  # a copy each: raising an exception changes its traceback
        return []
    for k, issues in named.items():
        record = batch[k].record
        batch[k].settle(invalid(issues, record=record, status=error.status, request_id=error.request_id))
    return [entry for k, entry in enumerate(batch) if k not in named]


@dataclass(eq=False)
class Coalescer:
    """Batches of calls with the same settings, open for `window` seconds or until `max_batch` calls."""

    _window: float
    _max_batch: int
    _send: Callable[[list[PendingCall], BatchKey], Awaitable[None]]

    async def _settle(self, entries: list[PendingCall], key: BatchKey) -> None:
        try:
            await self._send(entries, key)
        except BaseException as error:  # for example Ctrl-C: do not leave the others waiting
            for entry in entries:
                entry.settle(Unavailable(f"no reward: the batch of this call ended with {type(error).__name__}"))
            raise


@dataclass(eq=False)
class SyncCoalescer(Coalescer):
    """Coalesces the calls of several threads. The first one sends the batch, in its own thread."""

    _open: dict[BatchKey, tuple[list[PendingCall], threading.Event]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, entry: PendingCall, key: BatchKey) -> None:
        """Join the batch of these settings. Return at once, or, for its first entry, once the batch is settled."""
        with self._lock:
            batch = self._open.get(key)
            is_first = batch is None
            if batch is None:
                batch = self._open[key] = [], threading.Event()
            entries, full = batch
            entries.append(entry)
            if len(entries) >= self._max_batch:
                del self._open[key]
                full.set()
        if not is_first:
            return
        try:
            full.wait(self._window)
        finally:
            with self._lock:
                if self._open.get(key) is batch:
                    del self._open[key]
        completed(self._settle(entries, key))


@dataclass(eq=False)
class AsyncCoalescer(Coalescer):
    _open: dict[tuple[asyncio.AbstractEventLoop, BatchKey], tuple[list[PendingCall], asyncio.TimerHandle]] = field(
        default_factory=dict
    )
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def add(self, entry: PendingCall, key: BatchKey) -> None:
        loop = asyncio.get_running_loop()
        batch = self._open.get((loop, key))
        if batch is None:
            for ended in [open_key for open_key in self._open if open_key[0].is_closed()]:
                del self._open[ended]
            window = min(self._window, entry.deadline - time.monotonic())
            batch = self._open[loop, key] = [], loop.call_later(window, self._close, loop, key)
        batch[0].append(entry)
        if len(batch[0]) >= self._max_batch:
            self._close(loop, key)

    def _close(self, loop: asyncio.AbstractEventLoop, key: BatchKey) -> None:
        entries, closing = self._open.pop((loop, key))
        closing.cancel()
        task = loop.create_task(self._settle(entries, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

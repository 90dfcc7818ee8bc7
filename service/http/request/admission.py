"""Admission control by bytes: a budget for bodies being read or scored, with a bounded queue.

A long body, which the threads score, is admitted by its declared length before its first byte is read: while it waits,
the client keeps it. Short bodies have a separate budget and are charged as they arrive, so that no batch delays them
and a client that only announces bytes uses no budget. A body without a declared length counts as short until it has
become long; then it joins the queue.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from time import perf_counter

from ...config import ServerSettings
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from .deadline import deadline_exceeded
from .exchange import ClientGone, Exchange
from .resident_memory import ResidentGuard

__all__ = ["Admission", "ByteBudget", "LoopBudget", "Permit"]

FIRST_RESERVE = 1 << 20
"""Bytes that a body of unknown length reserves when it becomes long; any more are charged as they arrive."""

MAX_PER_TURN = 64
"""Maximum short requests scored per turn of the event loop, which takes some milliseconds."""

MAX_RETRY_SECONDS = 30
"""Maximum of `Retry-After`."""


class Permit:
    """Bytes of a budget, returned once all holders (the exchange and its job) have released them."""

    __slots__ = ("_budget", "_holders", "_since", "nbytes")

    def __init__(self, budget: ByteBudget, nbytes: int) -> None:
        self.nbytes = nbytes
        self._budget = budget
        self._holders = 1
        self._since = perf_counter()

    def grow(self, nbytes: int, *, patient: bool = False) -> None:
        """Charge more bytes without waiting (see `ByteBudget.charge`): waiting holders could deadlock."""
        self._budget.charge(nbytes, patient=patient)
        self.nbytes += nbytes

    def hold(self) -> None:
        """Add a holder."""
        self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one returns the bytes. Call it on the event loop's thread."""
        self._holders -= 1
        if not self._holders:
            self._budget.give_back(self.nbytes, perf_counter() - self._since)


Place = tuple[asyncio.Future[Permit], int]
"""A request in the queue of a budget: its future permit, and its bytes."""


class ByteBudget:
    """A budget of bytes in use with a FIFO queue. Not thread-safe: for the event loop only."""

    def __init__(
        self,
        capacity: int,
        max_queued_bytes: int = 0,
        max_waiting: int = 0,
        memory_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create a budget that admits nothing while `memory_full` returns True."""
        self.capacity, self.max_queued_bytes = capacity, max_queued_bytes
        self._memory_full = memory_full
        self.in_use = 0
        """Admitted bytes."""
        self.queued_bytes = 0
        """Bytes in the queue."""
        self._max_waiting = max_waiting
        self._queue: deque[Place] = deque()
        self._held_seconds = 0.1
        """Moving average of the seconds for which bytes are held."""

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    async def enter(self, exchange: Exchange, nbytes: int, *, patient: bool = False) -> Permit:
        """Wait until `nbytes` (capped at the whole budget) fit, then return a permit for them.

        Unless `patient`, raise Problem `over-capacity` if the queue is full, and `memory-full`. Raise Problem
        `deadline` or ClientGone if that happens first.
        """
        nbytes = min(nbytes, self.capacity)
        full = self._memory_full()
        if not self._queue and self.in_use + nbytes <= self.capacity and not full:
            self.in_use += nbytes
            return Permit(self, nbytes)
        if full and not patient:
            detail = "The service's memory is close to its ceiling."
            raise Problem("memory-full", detail, headers=[(b"retry-after", b"1")])
        if not patient and (self.queued_bytes + nbytes > self.max_queued_bytes or self.waiting >= self._max_waiting):
            raise self.over_capacity()
        return await self._wait(nbytes, exchange)

    async def _wait(self, nbytes: int, exchange: Exchange) -> Permit:
        started = perf_counter()
        granted: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        place = granted, nbytes
        self._queue.append(place)
        self.queued_bytes += nbytes
        exchange.on_disconnect(lambda: None if granted.done() else granted.set_exception(ClientGone()))
        try:
            async with asyncio.timeout(exchange.deadline.left):
                return await granted
        except BaseException as error:
            try:
                self._queue.remove(place)
            except ValueError:  # admitted at the same moment
                granted.result().release()
            else:
                self.queued_bytes -= nbytes
                self.admit_waiting()  # the next in line may fit now
            if isinstance(error, TimeoutError):
                raise deadline_exceeded() from None
            raise
        finally:
            exchange.times.queue += perf_counter() - started
            exchange.on_disconnect(None)

    def charge(self, nbytes: int, *, patient: bool = False) -> None:
        """Charge bytes without waiting; raise Problem `over-capacity` if they do not fit.

        A `patient` request may exceed the budget, and so may the only body in work.
        """
        if not patient and self.in_use and self.in_use + nbytes > self.capacity:
            raise self.over_capacity()
        self.in_use += nbytes

    def give_back(self, nbytes: int, held: float) -> None:
        """Return bytes that were held for `held` seconds."""
        self.in_use -= nbytes
        self._held_seconds += 0.1 * (held - self._held_seconds)
        self.admit_waiting()

    def admit_waiting(self) -> None:
        """Admit what fits from the head of the queue; also called every second, when memory may be free again."""
        while self._queue:
            granted, nbytes = self._queue[0]
            if granted.done() or self.in_use + nbytes > self.capacity or self._memory_full():
                return  # a request that has left cleans up after itself
            self._queue.popleft()
            self.queued_bytes -= nbytes
            self.in_use += nbytes
            granted.set_result(Permit(self, nbytes))

    def over_capacity(self) -> Problem:
        """Return the problem `over-capacity`; its `Retry-After` estimates when the queue will be empty."""
        seconds = self._held_seconds * (1 + self.queued_bytes / self.capacity)
        retry_after = b"%d" % min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))
        detail = "The bytes in work and in the queue have reached their limit."
        return Problem("over-capacity", detail, headers=[(b"retry-after", retry_after)])


class LoopBudget:
    """Limits how many short requests the event loop scores in one turn.

    Otherwise a burst of thousands would take one turn of seconds, without accepting connections or answering probes.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, times: StageTimes) -> None:
        """Take a place in this turn, or wait for one in a later turn, first in, first out."""
        if self._taken < MAX_PER_TURN and not self._waiting:
            if not self._taken:
                asyncio.get_running_loop().call_soon(self._next)
            self._taken += 1
            return
        started = perf_counter()
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        finally:
            times.queue += perf_counter() - started

    def _next(self) -> None:
        self._taken = 0
        while self._waiting and self._taken < MAX_PER_TURN:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                self._taken += 1
        if self._taken:
            asyncio.get_running_loop().call_soon(self._next)


class Admission:
    """The budgets of one service: one with a queue for batches, and a separate one for short bodies."""

    def __init__(self, settings: ServerSettings) -> None:
        self.short = settings.inline_bytes
        """Bodies below this many bytes are short."""
        self.resident = ResidentGuard(settings.max_work_bytes)
        self.batches = ByteBudget(
            settings.max_work_bytes, settings.max_queued_bytes, settings.max_queued, lambda: self.resident.exceeded
        )
        self.singles = ByteBudget(settings.max_work_bytes)
        self.loop_budget = LoopBudget()
        self.unread = 0
        """Bytes of replies that their clients have not read yet."""

    @property
    def in_use(self) -> int:
        """Bytes in work, in both budgets."""
        return self.batches.in_use + self.singles.in_use

    @property
    def replies_full(self) -> bool:
        """True while more bytes of replies are unread than may be in work: no further job starts then."""
        return self.unread > self.batches.capacity

    def over_capacity(self) -> Problem:
        """Return the problem `over-capacity` of batches."""
        return self.batches.over_capacity()

    async def count_unread(self, nbytes: int, drained: Awaitable[None]) -> None:
        """Count a reply of `nbytes` as unread until it is `drained`."""
        self.unread += nbytes
        try:
            await drained
        finally:
            self.unread -= nbytes

    async def admit(self, exchange: Exchange, nbytes: int) -> None:
        """Give the exchange a permit for a batch of `nbytes`; raise as `ByteBudget.enter` does."""
        patient = exchange.max_queue_seconds is not None
        permit = await self.batches.enter(exchange, nbytes, patient=patient)
        if exchange.permit is not None:
            exchange.permit.release()
        exchange.permit = permit

    async def charge_chunk(self, exchange: Exchange, nbytes: int, total: int) -> None:
        """Charge `nbytes` more of a body that was not admitted by its length and now has `total` bytes."""
        patient = exchange.max_queue_seconds is not None
        permit = exchange.permit
        if exchange.short and total >= self.short:
            exchange.short = False
            await self.admit(exchange, max(total, FIRST_RESERVE))
        elif permit is None:
            self.singles.charge(nbytes, patient=patient)
            exchange.permit = Permit(self.singles, nbytes)
        elif exchange.short:
            permit.grow(nbytes, patient=patient)
        elif total > permit.nbytes:
            permit.grow(total - permit.nbytes)

"""Admission by bytes: how many may be in work at once, and how many may wait for that.

A body that is long enough to be scored by the threads is admitted before its first byte is read, by the length that it
declares: while it waits, the client keeps it. Short bodies have a separate budget and are charged as they arrive, so
that no batch can hold them up, and a client that only promises bytes takes none of the budget. So is a body without a
declared length, until it is no longer short; then it joins the queue.
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
"""Bytes that a body of unknown length reserves when it is no longer short; beyond them it is charged as it arrives."""

MAX_PER_TURN = 64
"""Short requests that are scored in one turn of the event loop, which takes some milliseconds."""

MAX_RETRY_SECONDS = 30
"""Maximum of `Retry-After`."""


class Permit:
    """Bytes of a budget, returned once all holders have released them: the exchange, and the job that it began."""

    __slots__ = ("_budget", "_holders", "_since", "nbytes")

    def __init__(self, budget: ByteBudget, nbytes: int) -> None:
        self.nbytes = nbytes
        self._budget = budget
        self._holders = 1
        self._since = perf_counter()

    def grow(self, nbytes: int, *, patient: bool = False) -> None:
        """Charge more bytes as `ByteBudget.charge` does: a holder of bytes must not wait for more of them."""
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


class Waiting:
    """One request in the queue of a budget."""

    __slots__ = ("granted", "nbytes", "place")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.granted: Permit | None = None

    def leave(self) -> None:
        """End the wait, because the client has disconnected."""
        if not self.place.done():
            self.place.set_exception(ClientGone())


class ByteBudget:
    """A budget of bytes in work with a first-in, first-out queue. For the event loop's thread."""

    def __init__(
        self,
        capacity: int,
        max_queued_bytes: int = 0,
        max_waiting: int = 0,
        memory_full: Callable[[], bool] = lambda: False,
    ) -> None:
        """Admit nothing while `memory_full` returns True, whatever the budget."""
        self.capacity, self.max_queued_bytes = capacity, max_queued_bytes
        self._memory_full = memory_full
        self.in_use = 0
        """Bytes admitted."""
        self.queued_bytes = 0
        """Bytes that wait."""
        self._max_waiting = max_waiting
        self._queue: deque[Waiting] = deque()
        self._held_seconds = 0.1
        """Moving average of the seconds for which bytes are held."""

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._queue)

    async def enter(self, exchange: Exchange, nbytes: int, *, patient: bool = False) -> Permit:
        """Wait until `nbytes` (capped at the whole budget) fit, then return a permit for them.

        Unless `patient`, raise Problem `over-capacity` if the queue is full, and `memory-full`. Raise Problem
        `deadline`, and ClientGone, if the wait ends that way.
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
        return await self._wait(Waiting(nbytes), exchange)

    async def _wait(self, waiting: Waiting, exchange: Exchange) -> Permit:
        started = perf_counter()
        self._queue.append(waiting)
        self.queued_bytes += waiting.nbytes
        exchange.when_gone(waiting.leave)
        try:
            async with asyncio.timeout(exchange.deadline.left):
                await waiting.place
        except BaseException as error:
            if waiting.granted is not None:  # admitted just when the wait ended otherwise
                waiting.granted.release()
            else:
                self._queue.remove(waiting)
                self.queued_bytes -= waiting.nbytes
                self.admit_waiting()  # the next in line may fit now
            if isinstance(error, TimeoutError):
                raise deadline_exceeded() from None
            raise
        finally:
            exchange.times.queue += perf_counter() - started
            exchange.when_gone(None)
        assert waiting.granted is not None
        return waiting.granted

    def charge(self, nbytes: int, *, patient: bool = False) -> None:
        """Charge bytes without waiting; raise Problem `over-capacity` if they do not fit.

        A `patient` request may exceed the budget, and so may a body that is alone.
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
        """Admit what fits from the head of the queue; also called every second, as memory may be free again."""
        queue = self._queue
        while queue and (queue[0].place.done() or self.in_use + queue[0].nbytes <= self.capacity):
            if queue[0].place.done() or self._memory_full():  # a request that has left cleans up after itself
                break
            waiting = queue.popleft()
            self.queued_bytes -= waiting.nbytes
            self.in_use += waiting.nbytes
            waiting.granted = Permit(self, waiting.nbytes)
            waiting.place.set_result(None)

    def over_capacity(self) -> Problem:
        """Return the refusal; its `Retry-After` estimates when the queue will have been served."""
        seconds = self._held_seconds * (1 + self.queued_bytes / self.capacity)
        retry_after = b"%d" % min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))
        detail = "The bytes in work and in the queue are at their limit."
        return Problem("over-capacity", detail, headers=[(b"retry-after", retry_after)])


class LoopBudget:
    """How many short requests the event loop scores in one turn.

    A burst of thousands would otherwise take one turn of seconds, during which nobody is accepted and no probe is
    answered.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place in this turn; return False if there is none."""
        if self._taken >= MAX_PER_TURN or self._waiting:
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next)
        self._taken += 1
        return True

    async def wait(self, times: StageTimes) -> None:
        """Wait for a turn with room, first in, first out."""
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
    """The budgets of one service: batches, which may have to wait, and short bodies, which do not wait for them."""

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
        """True while as many bytes of replies are unread as may be in work: no job begins that would add to them."""
        return self.unread > self.batches.capacity

    def over_capacity(self) -> Problem:
        """Return the refusal of a batch."""
        return self.batches.over_capacity()

    async def until_taken(self, nbytes: int, taken: Awaitable[None]) -> None:
        """Count a reply of `nbytes` as unread until it is `taken`."""
        self.unread += nbytes
        try:
            await taken
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
        """Charge `nbytes` more of a body that was not admitted by its length, and now has `total` bytes."""
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

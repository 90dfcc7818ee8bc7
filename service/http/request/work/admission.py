"""Admission by bytes: how much may be in work at once, and how much may wait for that.

A body that is long enough to be scored by the threads is admitted before its first byte is read, by the length that it
declares: while it waits, it lies with the client. Short bodies have a lane of their own and are charged as they arrive,
so that no batch can hold them up, and a client that only promises bytes takes none of the budget. So is a body without
a declared length, until it is no longer short; then it takes its place in the line.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import TYPE_CHECKING

from ...wire.problems import Problem
from ..deadline import Deadline, past
from ..exchange import ClientGone, Exchange
from .resident_memory import ResidentGuard

if TYPE_CHECKING:
    from ....config import ServerSettings
    from ...wire.stage_times import StageTimes

__all__ = ["Admission", "Lane", "Permit", "Turns"]

FIRST_RESERVE = 1 << 20
"""Bytes that a body of unknown length reserves when it is no longer short; beyond them it is charged as it comes."""

MAX_PER_TURN = 64
"""Short requests that are scored in one turn of the event loop: some milliseconds, until it looks around again."""

MAX_RETRY_SECONDS = 30
"""Most seconds that `Retry-After` asks for."""


class Permit:
    """Bytes of a lane's budget, given back once all of its holders have let go: the exchange, and the job it began."""

    __slots__ = ("_holders", "_lane", "_since", "nbytes")

    def __init__(self, lane: Lane, nbytes: int) -> None:
        self.nbytes = nbytes
        self._lane = lane
        self._holders = 1
        self._since = perf_counter()

    def grow(self, nbytes: int, *, patient: bool = False) -> None:
        """Take more of the budget as `Lane.charge` does: who holds a part of it must not wait for another."""
        self._lane.charge(nbytes, patient=patient)
        self.nbytes += nbytes

    def hold(self) -> None:
        """One holder more."""
        self._holders += 1

    def release(self) -> None:
        """One holder less; the last one gives the bytes back. For the event loop's thread."""
        self._holders -= 1
        if not self._holders:
            self._lane.give_back(self.nbytes, perf_counter() - self._since)


class Waiting:
    """One place in a lane's line."""

    __slots__ = ("granted", "nbytes", "place")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.granted: Permit | None = None

    def leave(self) -> None:
        """The client has gone."""
        if not self.place.done():
            self.place.set_exception(ClientGone())


class Lane:
    """A budget of bytes in work with a line before it, first come, first served. For the event loop's thread."""

    def __init__(
        self, most: int, most_queued: int = 0, most_waiting: int = 0, memory_full: Callable[[], bool] = lambda: False
    ) -> None:
        """`memory_full` says that nothing may be admitted at present, whatever the budget."""
        self.most, self.most_queued = most, most_queued
        self._memory_full = memory_full
        self.work = 0
        """Bytes admitted."""
        self.queued = 0
        """Bytes that wait."""
        self._most_waiting = most_waiting
        self._line: deque[Waiting] = deque()
        self._held = 0.1
        """Seconds for which bytes are held, on a moving average."""

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._line)

    async def enter(self, exchange: Exchange, nbytes: int, deadline: Deadline, *, patient: bool = False) -> Permit:
        """A permit for so many bytes (or the whole budget, for more), as soon as there is room.

        Raises Problem `over-capacity` where the line is too long already, and `memory-full`, unless `patient`; Problem
        `deadline`, and ClientGone, where it ends in the line.
        """
        nbytes = min(nbytes, self.most)
        full = self._memory_full()
        if not self._line and self.work + nbytes <= self.most and not full:
            self.work += nbytes
            return Permit(self, nbytes)
        if full and not patient:
            detail = "The service's memory is close to its ceiling."
            raise Problem("memory-full", detail, headers=[(b"retry-after", b"1")])
        if not patient and (self.queued + nbytes > self.most_queued or self.waiting >= self._most_waiting):
            raise self.over_capacity()
        return await self._in_turn(Waiting(nbytes), exchange, deadline)

    async def _in_turn(self, waiting: Waiting, exchange: Exchange, deadline: Deadline) -> Permit:
        started = perf_counter()
        self._line.append(waiting)
        self.queued += waiting.nbytes
        exchange.when_gone(waiting.leave)
        try:
            async with asyncio.timeout(deadline.left):
                await waiting.place
        except BaseException as error:
            if waiting.granted is not None:  # both at once: the place came, and the wait ended otherwise
                waiting.granted.release()
            else:
                self._line.remove(waiting)
                self.queued -= waiting.nbytes
                self.admit_waiting()  # who stood behind may fit
            if isinstance(error, TimeoutError):
                raise past() from None
            raise
        finally:
            exchange.times.queue += perf_counter() - started
            exchange.when_gone(None)
        assert waiting.granted is not None
        return waiting.granted

    def charge(self, nbytes: int, *, patient: bool = False) -> None:
        """Take bytes of the budget without waiting, over it if `patient`; raises Problem `over-capacity`.

        A lone body always fits.
        """
        if not patient and self.work and self.work + nbytes > self.most:
            raise self.over_capacity()
        self.work += nbytes

    def give_back(self, nbytes: int, held: float) -> None:
        """Bytes that were held for so many seconds."""
        self.work -= nbytes
        self._held += 0.1 * (held - self._held)
        self.admit_waiting()

    def admit_waiting(self) -> None:
        """Admit whatever fits from the head of the line; also called every second, as memory may be free again."""
        line = self._line
        while line and (line[0].place.done() or self.work + line[0].nbytes <= self.most):
            if line[0].place.done() or self._memory_full():  # one that has left says so itself
                break
            waiting = line.popleft()
            self.queued -= waiting.nbytes
            self.work += waiting.nbytes
            waiting.granted = Permit(self, waiting.nbytes)
            waiting.place.set_result(None)

    def over_capacity(self) -> Problem:
        """The refusal; `Retry-After` is about when the line will have been served."""
        seconds = self._held * (1 + self.queued / self.most)
        retry_after = b"%d" % min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))
        detail = "The bytes in work and in the queue are at their limit."
        return Problem("over-capacity", detail, headers=[(b"retry-after", retry_after)])


class Turns:
    """How many short requests are scored in one turn of the event loop, which does so itself.

    A burst of thousands would else be one turn of seconds, in which nobody is accepted and no probe is answered.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Whether there is room in this turn."""
        if self._taken >= MAX_PER_TURN or self._waiting:
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next)
        self._taken += 1
        return True

    async def wait(self, times: StageTimes) -> None:
        """Wait for a turn with room, first come, first served."""
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
    """The lanes of one service: batches, which may have to wait, and short bodies, which do not wait for them."""

    def __init__(self, settings: ServerSettings) -> None:
        self.short = settings.inline_bytes
        """Bodies below this many bytes are short."""
        self.resident = ResidentGuard(settings.max_work_bytes)
        self.batches = Lane(
            settings.max_work_bytes, settings.max_queued_bytes, settings.max_queued, lambda: self.resident.exceeded
        )
        self.singles = Lane(settings.max_work_bytes)
        self.turns = Turns()
        self.unread = 0
        """Bytes of replies that their clients have not taken yet."""

    @property
    def work(self) -> int:
        """Bytes in work, in both lanes."""
        return self.batches.work + self.singles.work

    @property
    def replies_full(self) -> bool:
        """True while as many bytes of replies are unread as may be in work: no job begins that would add to them."""
        return self.unread > self.batches.most

    async def until_taken(self, nbytes: int, taken: Awaitable[None]) -> None:
        """Count a reply of `nbytes` as unread until it is `taken`."""
        self.unread += nbytes
        try:
            await taken
        finally:
            self.unread -= nbytes

    async def admit(self, exchange: Exchange, nbytes: int, deadline: Deadline) -> None:
        """Give the exchange a permit for a batch of so many bytes; raises as `Lane.enter` does."""
        patient = exchange.patience is not None
        permit = await self.batches.enter(exchange, nbytes, deadline, patient=patient)
        if exchange.permit is not None:
            exchange.permit.release()
        exchange.permit = permit

    async def arrived(self, exchange: Exchange, nbytes: int, total: int, deadline: Deadline) -> None:
        """Charge `nbytes` more of a body that was not admitted by its length; with them it has `total` bytes."""
        patient = exchange.patience is not None
        permit = exchange.permit
        if exchange.short and total >= self.short:
            exchange.short = False
            await self.admit(exchange, max(total, FIRST_RESERVE), deadline)
        elif permit is None:
            self.singles.charge(nbytes, patient=patient)
            exchange.permit = Permit(self.singles, nbytes)
        elif exchange.short:
            permit.grow(nbytes, patient=patient)
        elif total > permit.nbytes:
            permit.grow(total - permit.nbytes)

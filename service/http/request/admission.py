"""Admission control by bytes: a budget for bodies being read or scored, with a bounded queue.

Bodies are charged for the bytes that have arrived, so a client that only announces bytes uses no budget. Short bodies
have a separate budget, and no batch delays them. A long body, which the threads score, waits in a queue, before its
first byte and between any two messages, while earlier bodies need the budget for bytes that they are about to send. A
body that waits is not read. A body without a declared length counts as short until it has become long; then it joins
the queue.

Admission by bytes keeps the resident memory below the ceiling documented in docs/size.md as long as a byte of a
body takes at most six bytes of memory. In all other cases, `ResidentGuard` refuses new batches before that ceiling.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
from bisect import insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import perf_counter, sleep

from ...config import ServerSettings
from ...wire.problems import Problem
from .exchange import ClientGone, Deadline, Exchange, deadline_exceeded
from .worker_threads import LoopBudget

HEADROOM_BYTES = 190 << 20
"""Memory beyond the size when the service became ready, without the memory of bodies."""

BYTES_PER_WORK_BYTE = 5
"""Bytes of memory per byte in work at which new batches are refused: one less than the ceiling's six."""

FRESH_SECONDS = 0.1


class ResidentGuard:
    def __init__(self, max_work_bytes: int) -> None:
        self._allowance = HEADROOM_BYTES + BYTES_PER_WORK_BYTE * max_work_bytes
        self.limit = 0
        self._resident = 0
        self._measured = -FRESH_SECONDS

    def start(self) -> None:
        """Set the limit relative to the current size; call it when the service has become ready."""
        resident = resident_bytes()
        self.limit = resident + self._allowance if resident else 0

    @property
    def exceeded(self) -> bool:
        """True while the process is above its limit, after the allocator has returned what it can."""
        now = perf_counter()
        if self.limit and now - self._measured > FRESH_SECONDS:
            self._measured = now
            self._resident = resident_bytes()
            if self._resident > self.limit:
                malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
                if malloc_trim is not None:
                    malloc_trim(0)
                self._resident = resident_bytes()
        return self._resident > self.limit > 0


def resident_bytes() -> int:
    """Return the resident size of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


FIRST_RESERVE = 1 << 20
"""Bytes for which a body of unknown length queues when it becomes long."""

MESSAGE_BYTES = 1 << 18
"""Bytes that have to be free before a long body is read on: about as much as the server reads from a socket at once.
A body of which less has arrived delays no others."""

RECENT_SECONDS = 0.25
EXPECTED = 16
"""A body is expected to deliver EXPECTED times the bytes that arrived in RECENT_SECONDS: what it sends in four seconds.
Nothing is expected of a body that has sent nothing for RECENT_SECONDS."""

TICK_SECONDS = 0.05
RANK_RATE = 1 << 24
"""Bytes per second that delay a body's place in the queue, so that announcing 60 MiB does not delay batches of 4."""

MIN_RATE = 1 << 16
PATIENCE = 5.0
"""Minimum bytes per second of a long body while others wait, and the seconds for which it may send nothing. A burst of
many clients on one busy machine is slow too, and must not be refused; stalled bodies delay others less than that,
because the first one in the queue may exceed the budget."""

MAX_RETRY_SECONDS = 30


class BudgetShare:
    """Bytes of a budget, returned once all holders (the exchange and its job) have released them."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._holders = 1

    def hold(self) -> None:
        self._holders += 1

    def release(self) -> None:
        """Remove a holder; the last one returns the bytes. Call it on the event loop's thread."""
        self._holders -= 1
        if not self._holders:
            self.give_back()

    def give_back(self) -> None:
        raise NotImplementedError


class ReplyShare(BudgetShare):
    """The bytes of a reply: while it is computed, as many as it may have; then its length, until it is read."""

    def __init__(self, replies: Replies) -> None:
        super().__init__()
        self._replies = replies

    def reserve(self, nbytes: int, deadline: Deadline) -> None:
        """Wait in a job's thread until the reply may be computed; raise Problem `deadline`, and ClientGone."""
        if self._replies.resize(self, nbytes, forced=False):
            return
        with self._replies.waiting():
            while not self._replies.resize(self, nbytes, forced=False):
                if not deadline.left:
                    raise deadline_exceeded()
                if self._holders < HOLDERS:
                    raise ClientGone
                sleep(TICK_SECONDS)

    def keep(self, nbytes: int) -> None:
        """Count the complete reply, whether there is room for it or not."""
        self._replies.resize(self, nbytes, forced=True)

    def give_back(self) -> None:
        self.keep(0)


HOLDERS = 2
"""A share has two holders until its exchange ends before its job."""


class Replies:
    """The bytes of replies that are computed or not read yet: at most `capacity`, or one reply."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.in_use = 0
        self._waiting = 0
        self._lock = Lock()

    @property
    def full(self) -> bool:
        """True while replies have to wait for room."""
        return self._waiting > 0 or self.in_use > self.capacity

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self._lock:
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def resize(self, share: ReplyShare, nbytes: int, *, forced: bool) -> bool:
        """Change the bytes of a share if there is room; return whether they were changed."""
        with self._lock:
            others = self.in_use - share.nbytes
            if others and others + nbytes > self.capacity and not forced:
                return False
            self.in_use, share.nbytes = others + nbytes, nbytes
            return True


class Permit(BudgetShare):
    """The bytes of a body that have arrived, and its place in the queue."""

    def __init__(self, budget: Budget, to_come: int = 0) -> None:
        super().__init__()
        self.to_come = to_come
        self.complete = False
        self.since = perf_counter()
        self.place = self.since + to_come / RANK_RATE
        """The queue is in ascending order of this number."""
        self.queued = 0
        """Bytes of the body while it waits for its first turn; 0 afterwards."""
        self.turn: asyncio.Future[None] | None = None
        self.timer: asyncio.Timeout | None = None
        self.too_slow = False
        self.credit = PATIENCE
        """Seconds for which the body may send nothing."""
        self.since_check = 0
        self._recent = 0.0
        self._estimated = self.since
        self._budget = budget

    def arrive(self, nbytes: int) -> None:
        now = perf_counter()
        self._recent = self.recent(now) + nbytes
        self._estimated = now
        self.since_check += nbytes
        self.to_come = max(0, self.to_come - nbytes)

    def recent(self, now: float) -> float:
        """Return an estimate of the bytes that arrived in the last RECENT_SECONDS; 0 if the client has stopped."""
        return self._recent * max(0.0, 1 - (now - self._estimated) / RECENT_SECONDS)

    def resume(self) -> None:
        """Expect as many bytes as before a wait that was due to the budget."""
        self._estimated = perf_counter()

    @property
    def expected(self) -> float:
        """Bytes that will arrive soon, which must not be given to later bodies."""
        return min(self.to_come, EXPECTED * self.recent(perf_counter()))

    def give_back(self) -> None:
        self._budget.give_back(self)


class Budget:
    """A budget of bytes, with a queue in the order of the arrival and length of bodies. For the event loop only.

    A body is read on if the budget has room for its next message and for the bytes expected of earlier bodies. So a
    burst of fast clients is read a few bodies at a time, each to its end, and a client that is slow or has stopped
    delays nobody. If half-read bodies fill the budget, no body would ever be complete: then the first body in the queue
    is the leader, which may exceed the budget until it is complete.
    """

    def __init__(
        self,
        capacity: int,
        max_queued_bytes: int = 0,
        max_waiting: int = 0,
        memory_full: Callable[[], bool] = lambda: False,
    ) -> None:
        self.capacity = capacity
        self.in_use = 0
        self.max_queued_bytes = max_queued_bytes
        self._max_waiting = max_waiting
        self._memory_full = memory_full
        self._queue: list[Permit] = []
        self._reading: dict[Permit, None] = {}
        self._sizable: dict[Permit, None] = {}
        """The bodies that have delivered more than MESSAGE_BYTES."""
        self._leader: Permit | None = None
        self._complete = 0
        self._ticking = False
        self._held_seconds = 0.1
        """Moving average of the seconds for which bytes are held."""

    @property
    def queued_bytes(self) -> int:
        """Bytes of the bodies that wait for their first turn."""
        return sum(permit.queued for permit in self._queue)

    @property
    def waiting(self) -> int:
        return sum(permit.queued > 0 for permit in self._queue)

    async def enter(
        self, exchange: Exchange, nbytes: int, *, patient: bool = False, queued: int | None = None
    ) -> Permit:
        """Wait until a body of at most `nbytes` may be read, and return its permit, which holds no bytes yet.

        It counts as `queued` bytes in the queue, by default `nbytes`, but never as more than the whole budget. Unless
        `patient`, raise Problem `over-capacity` if the queue is full, and `memory-full`. Raise Problem `deadline` or
        ClientGone if that happens first.
        """
        memory_full = self._memory_full()
        if memory_full and not patient:
            raise Problem("memory-full", "The service's memory is close to its ceiling.")
        permit = Permit(self, nbytes)
        if memory_full or self._queue or not self._fits(permit):
            permit.queued = min(nbytes if queued is None else queued, self.capacity)
            full = self.queued_bytes + permit.queued > self.max_queued_bytes or self.waiting >= self._max_waiting
            if full and not patient and (self._queue or not self._may_lead(permit)):
                raise self.over_capacity()
            try:
                await self._wait(permit, exchange)
            except BaseException:
                permit.release()
                raise
            permit.since = perf_counter()
        self._reading[permit] = None
        return permit

    async def take_turn(self, permit: Permit, exchange: Exchange) -> None:
        """Wait until the next message of a body may be read; raise Problem `deadline` and ClientGone."""
        must_queue = self._queue and self._queue[0].place < permit.place
        if permit is not self._leader and (must_queue or not self._fits(permit)):
            await self._wait(permit, exchange)

    def _fits(self, permit: Permit, granted: int = 0) -> bool:
        used = self.in_use + granted + min(MESSAGE_BYTES, permit.to_come)
        return used <= self.capacity and used + self._expected_before(permit) <= self.capacity

    def _expected_before(self, permit: Permit) -> float:
        return sum(earlier.expected for earlier in self._sizable if earlier.place < permit.place)

    def _may_lead(self, permit: Permit) -> bool:
        """Return whether a body may exceed the budget, as nothing in work will make room for it."""
        return self._leader is None and not self._complete and self._expected_before(permit) < MESSAGE_BYTES

    async def _wait(self, permit: Permit, exchange: Exchange) -> None:
        started = perf_counter()
        turn = permit.turn = asyncio.get_running_loop().create_future()
        insort(self._queue, permit, key=lambda waiting: waiting.place)
        exchange.on_disconnect(lambda: None if turn.done() else turn.set_exception(ClientGone()))
        self.serve_queue()
        try:
            async with asyncio.timeout(exchange.deadline.left):
                await turn
        except TimeoutError:
            raise deadline_exceeded() from None
        finally:
            permit.turn = None
            if permit in self._queue:
                self._queue.remove(permit)
                self.serve_queue()  # the next in line may be read now
            exchange.times.queue += perf_counter() - started
            exchange.on_disconnect(None)

    def serve_queue(self) -> None:
        """Read on the first bodies of the queue."""
        granted, full = 0, bool(self._queue) and self._memory_full()
        for permit in tuple(self._queue):
            if permit.turn is None or permit.turn.done():
                break  # a request that has left cleans up after itself
            if full and permit.queued:
                continue
            if not self._fits(permit, granted):
                if granted or not self._may_lead(permit):
                    break
                self._leader = permit
            granted += min(MESSAGE_BYTES, permit.to_come)
            self._queue.remove(permit)
            permit.queued = 0
            permit.resume()
            permit.turn.set_result(None)
        if self._queue and not self._ticking:  # fewer bytes may be expected soon, and memory may be free again
            self._ticking = True
            asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._ticking = False
        self.serve_queue()

    def arrive(self, permit: Permit, nbytes: int) -> None:
        """Charge `nbytes` more of a body, but in total never more than the whole budget."""
        charged = min(nbytes, self.capacity - permit.nbytes)
        permit.nbytes += charged
        self.in_use += charged
        permit.arrive(nbytes)
        if permit.nbytes >= MESSAGE_BYTES:
            self._sizable[permit] = None

    def complete(self, permit: Permit) -> None:
        """Count a body as complete: its bytes will be released, whatever its client does."""
        self._forget(permit)
        permit.complete = True
        self._complete += 1
        self.serve_queue()

    def give_back(self, permit: Permit) -> None:
        self.in_use -= permit.nbytes
        if permit.complete:
            self._complete -= 1
            self._held_seconds += 0.1 * (perf_counter() - permit.since - self._held_seconds)
        self._forget(permit)
        self.serve_queue()

    def _forget(self, permit: Permit) -> None:
        permit.to_come = 0
        self._reading.pop(permit, None)
        self._sizable.pop(permit, None)
        if self._leader is permit:
            self._leader = None

    def check_rates(self) -> None:
        """Refuse bodies that are too slow while others wait; called every second."""
        if not self._queue:
            return
        now = asyncio.get_running_loop().time()
        for permit in self._reading:
            if permit.turn is None and permit.timer is not None:
                permit.credit = min(PATIENCE, permit.credit + permit.since_check / MIN_RATE) - 1
                if permit.credit < 0:
                    permit.too_slow = True
                    permit.timer.reschedule(now)
            permit.since_check = 0

    def over_capacity(self) -> Problem:
        seconds = self._held_seconds * (1 + self.queued_bytes / self.capacity)
        retry_after = b"%d" % min(MAX_RETRY_SECONDS, max(1, math.ceil(seconds)))
        detail = "The bytes in work and in the queue have reached their limit."
        return Problem("over-capacity", detail, headers=[(b"retry-after", retry_after)])


class Admission:
    """The budgets of one service: a budget with a queue for batches, and a separate one for short bodies."""

    def __init__(self, settings: ServerSettings) -> None:
        self.short = settings.inline_bytes
        self.resident = ResidentGuard(settings.max_work_bytes)
        self.batches = Budget(
            settings.max_work_bytes, settings.max_queued_bytes, settings.max_queued, lambda: self.resident.exceeded
        )
        self.singles = Budget(settings.max_work_bytes)
        self.loop_budget = LoopBudget()
        self.replies = Replies(settings.max_work_bytes)

    @property
    def in_use(self) -> int:
        return self.batches.in_use + self.singles.in_use

    @property
    def replies_full(self) -> bool:
        """True while replies have to wait for room: no further job starts then."""
        return self.replies.full

    def reply_share(self) -> ReplyShare:
        return ReplyShare(self.replies)

    def over_capacity(self) -> Problem:
        return self.batches.over_capacity()

    async def admit(self, exchange: Exchange, nbytes: int) -> None:
        """Wait until a batch of `nbytes` may be read, and give its exchange a permit; raise as `Budget.enter`."""
        patient = exchange.max_queue_seconds is not None
        exchange.permit = await self.batches.enter(exchange, nbytes, patient=patient)

    async def charge(
        self, exchange: Exchange, nbytes: int, total: int, at_most: int, more: bool, weight: int = 1
    ) -> None:
        """Charge `nbytes` more of a body, which now has `total` bytes and will have `at_most`.

        With `more` to come, wait until it may be read. Each byte of a long body counts `weight` times. Raise Problem as
        `Budget.enter` does, and ClientGone.
        """
        patient, permit = exchange.max_queue_seconds is not None, exchange.permit
        assert permit is None or isinstance(permit, Permit)
        if exchange.short and total < self.short:
            permit = permit or Permit(self.singles)
            others = self.singles.in_use - permit.nbytes
            if others and not patient and self.singles.in_use + nbytes > self.singles.capacity:
                raise self.singles.over_capacity()
            exchange.permit = permit
            permit.nbytes += nbytes
            self.singles.in_use += nbytes
            return
        if exchange.short:  # it has become long
            exchange.short = False
            longest, queued = (at_most, max(total, FIRST_RESERVE)) if more else (total, total)
            batch = await self.batches.enter(exchange, weight * longest, patient=patient, queued=weight * queued)
            if permit is not None:
                permit.release()
            exchange.permit = permit = batch
            nbytes = total
        assert permit is not None
        self.batches.arrive(permit, weight * nbytes)
        if more:
            await self.batches.take_turn(permit, exchange)
        else:
            self.batches.complete(permit)

    def check(self) -> None:
        """Do what is due every second."""
        self.batches.check_rates()

"""How many short requests the event loop scores before it looks at all connections again."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from time import perf_counter

from ..wire.stage_times import StageTimes

MAX_PER_TURN = 64
TURN_SECONDS = 0.02
"""Maximum number of short requests, and time, that the event loop spends on scoring before it looks at all connections
again. A probe on a new connection takes about five turns."""


class LoopBudget:
    """Limits how many short requests the event loop scores in one turn, and for how long.

    Otherwise a burst would take one turn of seconds, without accepting connections or answering probes. The others wait
    in order for the next turn, which wakes a few more of them than the last turn has scored.
    """

    def __init__(self) -> None:
        self._taken = 0
        self._until = 0.0
        self._scheduled = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, times: StageTimes) -> None:
        if self._waiting or (self._taken and not self._has_room()):
            await self._wait(times)
        if not self._taken:
            self._until = perf_counter() + TURN_SECONDS
            self._schedule()
        self._taken += 1

    def _has_room(self) -> bool:
        return not self._taken or (self._taken < MAX_PER_TURN and perf_counter() < self._until)

    async def _wait(self, times: StageTimes) -> None:
        started = perf_counter()
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._waiting.append(place)
        try:
            await place
            while not self._has_room():
                self._waiting[self._waiting.index(place)] = place = loop.create_future()
                await place
        finally:
            self._waiting.remove(place)
            times.queue += perf_counter() - started

    def _next(self) -> None:
        self._scheduled = False
        scored, self._taken = self._taken, 0
        for place in islice(self._waiting, min(MAX_PER_TURN, 2 * scored + 1)):
            if not place.done():
                place.set_result(None)
        if self._waiting:
            self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._next)

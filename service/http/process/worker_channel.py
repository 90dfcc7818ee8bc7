"""One process of several: how a worker talks with its supervisor, over a socket that only the two have.

Messages are JSON objects, one a line. The worker sends a heartbeat with its metrics every second; the supervisor asks
for them in between, and answers `scrape` with those of all workers. When the socket closes the supervisor has gone, and
the worker drains as after SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from ..request.telemetry.merged_metrics import Families, snapshot
from ..wire.problems import Problem

if TYPE_CHECKING:
    from ..state import ServiceState

__all__ = ["MAX_LINE", "Member", "line"]

log = logging.getLogger("assay")

MAX_LINE = 16 << 20
BEAT_SECONDS = 1.0
ANSWER_SECONDS = 5.0


def line(message: dict[str, Any]) -> bytes:
    """A message as it travels."""
    return orjson.dumps(message) + b"\n"


class Member:
    """This process as one of several."""

    def __init__(self, channel: socket.socket, *, late: bool, leave: Callable[[], None] | None = None) -> None:
        self._channel = channel
        self._late = late
        self._leave = leave or (lambda: os.kill(os.getpid(), signal.SIGTERM))
        self._asked: dict[int, asyncio.Future[Families]] = {}
        self._numbers = 0
        self._left_alone = False
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, state: ServiceState, preparing: threading.Thread) -> None:
        """Begin to talk. A `late` member comes back only when it is ready: until then others take the connections."""
        self._state = state
        reader, self._writer = await asyncio.open_unix_connection(sock=self._channel, limit=MAX_LINE)
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._beat())]
        while self._late and preparing.is_alive() and not state.readiness.draining:
            await asyncio.sleep(0.05)
        if self._late and not preparing.is_alive():
            state.readiness.check()  # one that cannot become ready never listens

    def listens(self) -> None:
        """Say that connections are taken from now on."""
        self._send({"listening": True})

    async def merged(self) -> Families:
        """The metrics of all members; raises Problem `not-ready` where the supervisor does not answer."""
        detail = "The supervisor of this process does not answer."
        silent = Problem("not-ready", detail, headers=[(b"retry-after", b"1")])
        if self._left_alone:
            raise silent
        self._numbers += 1
        number = self._numbers
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"scrape": number})
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except (OSError, TimeoutError):
            raise silent from None
        finally:
            del self._asked[number]

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(line(message))

    def _report(self) -> dict[str, Any]:
        readiness = self._state.readiness
        return {"ready": readiness.obstacle is None, "metrics": snapshot(self._state.metrics.registry)}

    async def _beat(self) -> None:
        while not self._writer.is_closing():
            self._send({"beat": True, **self._report()})
            await asyncio.sleep(BEAT_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):  # a supervisor that ends with messages unread resets the connection
            while received := await reader.readline():
                self._answer(orjson.loads(received))
        self._left_alone = True
        log.error("the supervisor has gone: this worker drains")
        self._leave()

    def _answer(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            self._send({"answer": message["ask"], **self._report()})
        elif "merged" in message:
            waiting = self._asked.get(message["merged"])
            if waiting is not None and not waiting.done():
                waiting.set_result(message["metrics"])

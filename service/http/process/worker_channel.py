"""The worker's end of the worker–supervisor channel (a private socket pair).

Messages are JSON objects, one per line. The worker sends a heartbeat with its metrics every second; the supervisor may
ask for them in between, and answers `scrape` with those of all workers. When the socket closes, the supervisor has
ended and the worker drains as after SIGTERM.
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
from typing import Any

import orjson
from prometheus_client import CollectorRegistry

from ..request.readiness import Readiness
from ..request.telemetry.merged_metrics import Families, snapshot
from ..wire.problems import Problem

__all__ = ["MAX_LINE", "WorkerChannel", "encode_message"]

log = logging.getLogger("assay")

MAX_LINE = 16 << 20
BEAT_SECONDS = 1.0
ANSWER_SECONDS = 5.0


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message as one line of JSON."""
    return orjson.dumps(message) + b"\n"


class WorkerChannel:
    """Connects this process, one of several, with its supervisor."""

    def __init__(
        self, channel: socket.socket, *, listen_when_ready: bool, leave: Callable[[], None] | None = None
    ) -> None:
        self._channel = channel
        self._listen_when_ready = listen_when_ready
        self._leave = leave or (lambda: os.kill(os.getpid(), signal.SIGTERM))
        self._scrapes: dict[int, asyncio.Future[Families]] = {}
        self._numbers = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, readiness: Readiness, registry: CollectorRegistry, preparing: threading.Thread) -> None:
        """Start the channel. With `listen_when_ready`, return once `preparing` has ended: others serve until then."""
        self._readiness = readiness
        self._registry = registry
        reader, self._writer = await asyncio.open_unix_connection(sock=self._channel, limit=MAX_LINE)
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._beat())]
        while self._listen_when_ready and preparing.is_alive() and not readiness.draining:
            await asyncio.sleep(0.05)
        if self._listen_when_ready and not preparing.is_alive():
            readiness.check()  # a worker that failed to become ready must not listen

    def listens(self) -> None:
        """Report that this worker accepts connections from now on."""
        self._send({"listening": True})

    async def merged(self) -> Families:
        """Return the metrics of all workers; raises Problem `not-ready` if the supervisor does not answer."""
        detail = "The supervisor of this process does not answer."
        no_answer = Problem("not-ready", detail, headers=[(b"retry-after", b"1")])
        if self._closed:
            raise no_answer
        self._numbers += 1
        number = self._numbers
        answer = self._scrapes[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"scrape": number})
            return await asyncio.wait_for(answer, ANSWER_SECONDS)
        except (OSError, TimeoutError):
            raise no_answer from None
        finally:
            del self._scrapes[number]

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(encode_message(message))

    def _report(self) -> dict[str, Any]:
        return {"ready": self._readiness.obstacle is None, "metrics": snapshot(self._registry)}

    async def _beat(self) -> None:
        while not self._writer.is_closing():
            self._send({"beat": True, **self._report()})
            await asyncio.sleep(BEAT_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):  # a supervisor that ends with unread messages resets the connection
            while received := await reader.readline():
                self._answer(orjson.loads(received))
        self._closed = True
        log.error("the supervisor has ended: this worker drains")
        self._leave()

    def _answer(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            self._send({"answer": message["ask"], **self._report()})
        elif "merged" in message:
            waiting = self._scrapes.get(message["merged"])
            if waiting is not None and not waiting.done():
                waiting.set_result(message["metrics"])

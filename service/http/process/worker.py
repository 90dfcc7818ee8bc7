"""A worker process, started by `supervisor.py`, and its end of the channel to it (a private socket pair).

Messages are JSON objects, one per line, after a first one with the configuration. Every second, and when the supervisor
asks, the worker sends the changes of its metrics, in messages of bounded length, and a heartbeat. The supervisor
answers `scrape` with the metrics of all workers, as bytes that follow a line with their number, and sends the names of
runs that label them. When the socket closes, the supervisor has ended and the worker drains as after SIGTERM.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import struct
import threading
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import orjson

from ...config import Config, ServerSettings
from ...settings import ScoreSettings
from ..request.exchange import Readiness
from ..request.exposition import Differences, Paced
from ..request.metrics import Metrics
from ..state import ServiceState
from ..wire.headers import Problem
from .logs import start_logging
from .server import run_server
from .signals import ENDING, end_process, handle_early
from .sockets import Listener, bind_shared

log = logging.getLogger("assay")

LENGTH = struct.Struct("!I")
BLOCKED_SIGNALS = (*ENDING, signal.SIGHUP)
MAX_LINE = 2 << 20
"""Longest message in bytes, but for an exposition, whose length is announced."""

BEAT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
SEND_SECONDS = 0.01
"""Time for the event loop to send the last message."""


def encode_message(message: dict[str, Any]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"


class WorkerChannel:
    def __init__(self, channel: socket.socket, *, listen_when_ready: bool) -> None:
        self._channel = channel
        self._listen_when_ready = listen_when_ready
        self._scrapes = [Paced(partial(self._scrape, openmetrics), 0.0) for openmetrics in (False, True)]
        self._replies: dict[int, asyncio.Future[bytes]] = {}
        self._numbers = 0
        self._asked: list[int] = []
        self._wake = asyncio.Event()
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, readiness: Readiness, metrics: Metrics, preparing: threading.Thread) -> None:
        """Start the channel. With `listen_when_ready`, return once `preparing` has ended: others serve until then."""
        self._readiness = readiness
        self._metrics = metrics
        reader, self._writer = await asyncio.open_unix_connection(sock=self._channel, limit=MAX_LINE)
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._report())]
        while self._listen_when_ready and preparing.is_alive() and not readiness.draining:
            await asyncio.sleep(0.05)
        if self._listen_when_ready and not preparing.is_alive():
            readiness.check()  # a worker that failed to become ready must not listen

    def listens(self) -> None:
        self._send({"listening": True})

    async def ends(self, cut_off: int) -> None:
        self._send({"answered": self._metrics.answered, "cut_off": cut_off})
        await asyncio.sleep(SEND_SECONDS)

    async def exposition(self, openmetrics: bool) -> bytes:
        """Return the metrics of all workers; raises Problem `not-ready` if the supervisor does not answer."""
        body = await self._scrapes[openmetrics]()
        if body is None:
            raise Problem("not-ready", "The supervisor of this process does not answer.")
        return body

    async def _scrape(self, openmetrics: bool) -> bytes | None:
        if self._closed:
            return None
        self._numbers += 1
        number = self._numbers
        reply = self._replies[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"scrape": number, "openmetrics": openmetrics})
            return await asyncio.wait_for(reply, ANSWER_SECONDS)
        except (OSError, TimeoutError):
            return None
        finally:
            del self._replies[number]

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(encode_message(message))

    async def _report(self) -> None:
        differences = Differences(self._metrics.table)
        with suppress(OSError):
            while not self._writer.is_closing():
                asked, self._asked = self._asked, []
                self._wake.clear()
                self._metrics.refresh()
                for message in differences.messages():
                    self._send(message)
                    await asyncio.sleep(0)
                    await self._writer.drain()
                ready, answered = self._readiness.obstacle is None, self._metrics.answered
                self._send({"ready": ready, "answers": asked, "answered": answered})
                await self._writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), BEAT_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError, EOFError):  # a supervisor that ends with unread messages resets the connection
            while received := await reader.readline():
                message = orjson.loads(received)
                body = await reader.readexactly(message.get("bytes", 0))
                self._handle(message, body)
        self._closed = True
        log.error("the supervisor has ended: this worker drains")
        os.kill(os.getpid(), signal.SIGTERM)

    def _handle(self, message: dict[str, Any], body: bytes) -> None:
        if "ask" in message:
            self._asked.append(message["ask"])
            self._wake.set()
        elif "bytes" in message:
            reply = self._replies.get(message["scraped"])
            if reply is not None and not reply.done():
                reply.set_result(body)
        elif "runs" in message:
            self._metrics.runs.follow(message["runs"])


def main(descriptor: int) -> None:
    """Serve a share of a port until a signal ends it; the configuration arrives over the channel."""
    handle_early()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    channel = socket.socket(fileno=descriptor)
    config, port, listen_when_ready = read_startup_message(channel)
    start_logging(config.server.log_level, config.server.log_format)
    state = ServiceState(config)
    state.fleet = WorkerChannel(channel, listen_when_ready=listen_when_ready)
    end_process(run_server(config, state, lambda: Listener(bind_shared(config.server, port))))


def startup_message(config: Config, port: int, listen_when_ready: bool) -> bytes:
    server = config.server.model_dump(mode="json")
    server["api_keys"] = [key.get_secret_value() for key in config.server.api_keys]
    message = {
        "server": server,
        "score": config.score.model_dump(mode="json"),
        "origins": dict(config.origins),
        "keys_of_file": config.keys_of_file,
        "port": port,
        "listen_when_ready": listen_when_ready,
    }
    packed = json.dumps(message).encode()
    return LENGTH.pack(len(packed)) + packed


def read_startup_message(channel: socket.socket) -> tuple[Config, int, bool]:
    (length,) = LENGTH.unpack(channel.recv(LENGTH.size, socket.MSG_WAITALL))
    message = json.loads(channel.recv(length, socket.MSG_WAITALL))
    server = ServerSettings.model_validate(message["server"])
    score = ScoreSettings.model_validate_json(json.dumps(message["score"]))
    config = Config(server, score, MappingProxyType(message["origins"]), message["keys_of_file"])
    return config, message["port"], message["listen_when_ready"]

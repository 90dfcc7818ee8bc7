"""A worker process, started by `supervisor.py`, and its end of the channel to it (a private socket pair).

Messages are JSON objects, one per line, after a first one with the configuration. The worker sends a heartbeat with its
metrics every second; the supervisor may ask for them in between, answers `scrape` with those of all workers, and sends
the names of runs that label them. When the socket closes, the supervisor has ended and the worker drains as after
SIGTERM.
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
from types import MappingProxyType
from typing import Any

import orjson

from ...config import Config, ServerSettings
from ...settings import ScoreSettings
from ..request.readiness import Readiness
from ..request.telemetry.merged_metrics import Families, snapshot
from ..request.telemetry.metrics import Metrics
from ..state import ServiceState
from ..wire.problems import Problem
from .log_format import start_logging
from .server import run_server
from .signals import ENDING, end_process, handle_early
from .sockets import Listener, bind_shared

__all__ = ["BLOCKED_SIGNALS", "MAX_LINE", "WorkerChannel", "encode_message", "main", "startup_message"]

log = logging.getLogger("assay")

LENGTH = struct.Struct("!I")

BLOCKED_SIGNALS = (*ENDING, signal.SIGHUP)
"""Signals that are blocked when a worker starts, until it has handlers for them."""

MAX_LINE = 16 << 20
BEAT_SECONDS = 1.0
ANSWER_SECONDS = 5.0


def encode_message(message: dict[str, Any]) -> bytes:
    """Encode a message as one line of JSON."""
    return orjson.dumps(message) + b"\n"


class WorkerChannel:
    """Connects this process, one of several, with its supervisor."""

    def __init__(self, channel: socket.socket, *, listen_when_ready: bool) -> None:
        self._channel = channel
        self._listen_when_ready = listen_when_ready
        self._scrapes: dict[int, asyncio.Future[Families]] = {}
        self._numbers = 0
        self._closed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self, readiness: Readiness, metrics: Metrics, preparing: threading.Thread) -> None:
        """Start the channel. With `listen_when_ready`, return once `preparing` has ended: others serve until then."""
        self._readiness = readiness
        self._metrics = metrics
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
        return {"ready": self._readiness.obstacle is None, "metrics": snapshot(self._metrics.registry)}

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
        os.kill(os.getpid(), signal.SIGTERM)

    def _answer(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            self._send({"answer": message["ask"], **self._report()})
        elif "merged" in message:
            waiting = self._scrapes.get(message["merged"])
            if waiting is not None and not waiting.done():
                waiting.set_result(message["metrics"])
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
    """Encode the configuration of a worker for `read_startup_message`."""
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
    """Return the settings with their keys, the port, and whether to listen only once ready."""
    (length,) = LENGTH.unpack(channel.recv(LENGTH.size, socket.MSG_WAITALL))
    message = json.loads(channel.recv(length, socket.MSG_WAITALL))
    server = ServerSettings.model_validate(message["server"])
    score = ScoreSettings.model_validate_json(json.dumps(message["score"]))
    config = Config(server, score, MappingProxyType(message["origins"]), message["keys_of_file"])
    return config, message["port"], message["listen_when_ready"]

"""A worker process, started by `supervisor.py`, and its end of the channel to it (a private socket pair).

A message is a JSON object and bytes. The first one is the configuration. Then the worker sends a report every second,
when the supervisor asks, and at its end: its state, the series that are new, and as bytes all values. The supervisor
answers each one with the names of runs that label metrics and whether all workers have listened, and `scrape` with the
metrics of all workers. When the socket closes, the supervisor has ended and the worker drains as after SIGTERM.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import struct
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import Any

import orjson

from ...config import Config, ServerSettings
from ...settings import ScoreSettings
from ..request.metrics import Metrics
from ..request.readiness import Readiness
from ..request.series import Paced, Reports
from ..state import ServiceState
from ..wire.problems import Problem
from .balance import inherited_balance
from .logs import start_logging
from .server import run_server
from .signals import ENDING, end_process, handle_early
from .sockets import Listener, bind_shared

log = logging.getLogger("assay")

LENGTHS = struct.Struct("!II")
BLOCKED_SIGNALS = (*ENDING, signal.SIGHUP)
REPORT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
LAST_SECONDS = 1.0
"""Time for the supervisor to read the last report."""


def encode_message(message: dict[str, Any], body: bytes = b"") -> bytes:
    text = orjson.dumps(message)
    return LENGTHS.pack(len(text), len(body)) + text + body


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[dict[str, Any], bytes]]:
    """Yield messages until the other process has ended, even in the middle of one."""
    with suppress(OSError, EOFError):
        while True:
            text, body = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
            yield orjson.loads(await reader.readexactly(text)), await reader.readexactly(body)


class WorkerChannel:
    def __init__(self, channel: socket.socket, *, listen_when_ready: bool) -> None:
        self._channel = channel
        self._listen_when_ready = listen_when_ready
        self._scrapes = [Paced(partial(self._scrape, openmetrics), 0.0) for openmetrics in (False, True)]
        self._replies: dict[bool, asyncio.Future[bytes]] = {}
        self._listening = False
        self._asked = self._cut_off = 0
        self._wake = asyncio.Event()

    async def join(self, readiness: Readiness, metrics: Metrics, preparing: threading.Thread) -> None:
        """Start the channel. With `listen_when_ready`, return once `preparing` has ended: others serve until then."""
        self._readiness, self._metrics, self._reports = readiness, metrics, Reports(metrics.table)
        readiness.complete = False
        reader, self._writer = await asyncio.open_unix_connection(sock=self._channel)
        self._writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all is sent
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._keep_reporting())]
        while self._listen_when_ready and preparing.is_alive() and not readiness.draining:
            await asyncio.sleep(0.05)
        if self._listen_when_ready and not preparing.is_alive():
            readiness.check()  # a worker that failed to become ready must not listen

    def listens(self) -> None:
        self._listening = True
        self._wake.set()

    async def ends(self, cut_off: int) -> None:
        self._cut_off = cut_off
        with suppress(TimeoutError):
            await asyncio.wait_for(self._report(), LAST_SECONDS)

    async def exposition(self, openmetrics: bool) -> bytes:
        """Return the metrics of all workers; raises Problem `not-ready` if the supervisor does not answer."""
        body = await self._scrapes[openmetrics]()
        if body is None:
            raise Problem("not-ready", "The supervisor of this process does not answer.")
        return body

    async def _scrape(self, openmetrics: bool) -> bytes | None:
        if self._writer.is_closing():
            return None
        reply = self._replies[openmetrics] = asyncio.get_running_loop().create_future()
        self._writer.write(encode_message({"scrape": openmetrics}))
        with suppress(TimeoutError):
            return await asyncio.wait_for(reply, ANSWER_SECONDS)
        return None

    async def _report(self) -> None:
        metrics = self._metrics
        metrics.refresh()
        new, values = self._reports.next()
        new |= {"ready": self._readiness.obstacle is None, "listening": self._listening, "asked": self._asked}
        new["counts"] = {"answered": metrics.answered, "cut_off": self._cut_off}
        with suppress(OSError):
            self._writer.write(encode_message(new, values))
            await self._writer.drain()

    async def _keep_reporting(self) -> None:
        while not self._writer.is_closing():
            self._wake.clear()
            await self._report()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), REPORT_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        async for message, body in messages(reader):
            self._metrics.runs.follow(message.get("runs", ()))
            if "complete" in message:
                self._readiness.complete = message["complete"]
            if "ask" in message:
                self._asked = message["ask"]
                self._wake.set()
            if "scrape" in message and not self._replies[message["scrape"]].done():
                self._replies[message["scrape"]].set_result(body)
        self._writer.close()
        log.error("the supervisor has ended: this worker drains")
        os.kill(os.getpid(), signal.SIGTERM)


def main(descriptor: int, port: int, slot: int, balance: list[int], listen_when_ready: bool) -> None:
    """Serve a share of a port until a signal ends it; the configuration arrives over the channel."""
    handle_early()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    config = read_config(channel)
    start_logging(config.server.log_level, config.server.log_format)
    state = ServiceState(config)
    state.fleet = WorkerChannel(channel, listen_when_ready=listen_when_ready)
    listener = partial(bind_shared, config.server, port)
    end_process(run_server(config, state, lambda: Listener(listener()), inherited_balance(slot, balance)))


def config_message(config: Config) -> bytes:
    server = config.server.model_dump(mode="json")
    server["api_keys"] = [key.get_secret_value() for key in config.server.api_keys]
    score, origins = config.score.model_dump(mode="json"), dict(config.origins)
    return encode_message({"server": server, "score": score, "origins": origins, "keys_of_file": config.keys_of_file})


def read_config(channel: socket.socket) -> Config:
    length, _ = LENGTHS.unpack(channel.recv(LENGTHS.size, socket.MSG_WAITALL))
    message = orjson.loads(channel.recv(length, socket.MSG_WAITALL))
    server = ServerSettings.model_validate(message["server"])
    score = ScoreSettings.model_validate_json(orjson.dumps(message["score"]))
    return Config(server, score, MappingProxyType(message["origins"]), message["keys_of_file"])

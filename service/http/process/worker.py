"""A worker process, a fork of the template, and its end of the channel to the supervisor (see `messages`)."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import suppress
from functools import partial

from ...wire.problems import Problem
from ..request.fork_server import FORK_SERVER, SIGNALS
from ..request.metrics import Metrics
from ..request.readiness import Readiness
from ..request.series import Paced, Reports
from ..state import ServiceState
from .balance import Balance
from .logs import start_logging
from .messages import encode_message, messages, read_start
from .server import run_server
from .signals import DONE, FAILED, end_process, handle_early
from .sockets import Listener, bind_shared

log = logging.getLogger("assay")

REPORT_SECONDS = 1.0
ANSWER_SECONDS = 5.0
LAST_SECONDS = 1.0
"""Time for the supervisor to read the last report."""


class WorkerChannel:
    def __init__(self, channel: socket.socket, *, listen_when_ready: bool) -> None:
        self._channel = channel
        self._listen_when_ready = listen_when_ready
        self._scrapes = [Paced(partial(self._scrape, openmetrics), 0.0) for openmetrics in (False, True)]
        self._replies: dict[bool, asyncio.Future[bytes]] = {}
        self._listening = False
        self._asked = self._cut_off = 0
        self._code = FAILED
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
        self._cut_off, self._code = cut_off, FAILED if cut_off else DONE
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
        new["code"] = self._code
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


def run_worker(pair: socket.socket, descriptors: list[int]) -> None:
    """Serve a share of a port until a signal ends it, in a fork of the template.

    pair: kept open only, for the report of its end. descriptors: of the fork server, of the channel to the supervisor,
    and those that balance connections.
    """
    handle_early()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    for descriptor in (pair.fileno(), *descriptors):
        os.set_inheritable(descriptor, False)
    control, channel = (socket.socket(fileno=descriptor) for descriptor in descriptors[:2])
    try:
        config, port, slot, listen_when_ready = read_start(channel)
    except (OSError, EOFError):  # the supervisor has ended
        return
    FORK_SERVER.adopt(control)
    start_logging(config.server.log_level, config.server.log_format)
    state = ServiceState(config)
    state.fleet = WorkerChannel(channel, listen_when_ready=listen_when_ready)
    balance = Balance(slot, descriptors[2:])
    end_process(run_server(config, state, lambda: Listener(bind_shared(config.server, port)), balance))

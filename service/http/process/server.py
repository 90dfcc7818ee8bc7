"""One server process: uvicorn under Assay's own start, drain and exit."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from ...config import Config, ServerSettings
from ...version import VERSION
from ..app import create_app
from ..request.origin import OriginCheck
from ..state import ServiceState
from .connection import GuardedProtocol, guarded
from .connection_limits import Guard
from .log_format import start_logging
from .protocol_check import check_protocol
from .signals import ENDING, end_process
from .sockets import Listener, address, listen

__all__ = ["DONE", "FAILED", "DrainingServer", "allow_connections", "announce", "run_server", "serve", "uvicorn_config"]

log = logging.getLogger("assay")

DONE = 0
FAILED = 1

TICKS_A_SECOND = 10
"""How often uvicorn calls `on_tick`."""

LAST_WORDS = 0.2
"""Seconds for the replies to requests that are cut off."""

SPARE_DESCRIPTORS = 64
"""Of those that the system allows: for connections that are told that there are too many, files and pipes."""

LOOK_SECONDS = 0.03
QUIET_LOOKS = 3
"""How often in a row nobody may wait in the listen queue before it is taken as empty: handshakes take their time."""

QUEUE_SECONDS = 1.0
"""Time for the listen queue to become empty."""

FIRST_REQUEST_SECONDS = 1.0
"""Time for connections that have been accepted to send their first request."""

BACKSTOP_SECONDS = 4.0
"""Time beyond all others after which the kernel ends a process whose interpreter is held up."""


class DrainingServer(uvicorn.Server):
    """A server that says that it is leaving before it leaves.

    From the first SIGTERM on it is not ready but still accepts, for `drain_seconds`, so that load balancers have time
    to look elsewhere; then it takes what waits in the listen queue, stops to listen and finishes what is in flight, for
    `shutdown_seconds` at most. SIGINT skips the first part. A second signal ends it at once. Requests that are cut off
    are answered 503 and counted; where there are none the exit code is 0, although uvicorn would raise the signal
    again.
    """

    listener: Listener

    def __init__(self, config: uvicorn.Config, state: ServiceState) -> None:
        super().__init__(config)
        self.state = state
        self.leave_at: float | None = None
        self.reload_keys = False

    def take_signals(self) -> None:
        """Handle signals from now on, and not only while uvicorn serves."""
        for number in ENDING:
            signal.signal(number, self.handle_exit)
        signal.signal(signal.SIGHUP, self.handle_reload)

    def handle_exit(self, sig: int, frame: FrameType | None = None) -> None:
        """Called for SIGTERM and SIGINT."""
        settings = self.state.config.server
        if self.state.fleet is not None and not self.started:
            end_process(DONE)  # a worker that does not listen yet, and now never will: nobody waits for it
        longest = LAST_WORDS
        if self.state.readiness.draining:
            self.should_exit = self.force_exit = True
        else:
            longest += QUEUE_SECONDS + FIRST_REQUEST_SECONDS + settings.shutdown_seconds
            if sig == signal.SIGTERM:
                self.leave_at = time.monotonic() + settings.drain_seconds
                longest += settings.drain_seconds
            else:
                self.should_exit = True
        self.state.readiness.draining = True
        signal.setitimer(signal.ITIMER_REAL, longest + BACKSTOP_SECONDS)  # its signal needs no interpreter to kill

    def handle_reload(self, sig: int, frame: FrameType | None = None) -> None:
        """Called for SIGHUP."""
        self.reload_keys = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Prepare, and listen."""
        await super().startup(sockets)
        if self.started and self.state.fleet is not None:
            self.state.fleet.listens()

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; true ends the server's main loop."""
        if self.leave_at is not None and time.monotonic() >= self.leave_at:
            self.should_exit = True
        if self.reload_keys:
            self.reload_keys = False
            self.state.keys.follow(asked=True)
        if counter % TICKS_A_SECOND == 0:
            self.every_second()
        return await super().on_tick(counter)

    def every_second(self) -> None:
        """Look after slow clients and changed keys."""
        now = time.monotonic()
        for connection in self.guarded():
            connection.inspect(now)
        self.state.admission.batches.admit_waiting()
        self.state.keys.follow()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, and finish what is in flight, unless it takes too long or a signal says not to."""
        watch = asyncio.ensure_future(self.cut_off_when_forced())
        keep = asyncio.ensure_future(self.go_on_inspecting())
        await self.take_last_connections()
        await super().shutdown(sockets)
        if self.force_exit:
            await watch
            await self.lifespan.shutdown()  # which uvicorn leaves out, and then reports as an error
        elif self.state.cut_off:
            await asyncio.sleep(LAST_WORDS)
        watch.cancel()
        keep.cancel()
        for connection in list(self.server_state.connections):  # replies that are not read hold nothing up
            connection.transport.abort()

    async def take_last_connections(self) -> None:
        """Accept the connections in the listen queue, and give those without a request time to send one."""
        self.listener.turn_away()
        end = time.monotonic() + QUEUE_SECONDS
        quiet = 0
        while quiet < QUIET_LOOKS and time.monotonic() < end and not self.force_exit:
            quiet = 0 if self.listener.has_waiting() else quiet + 1
            await asyncio.sleep(LOOK_SECONDS)
        end = time.monotonic() + FIRST_REQUEST_SECONDS
        while any(c.is_expected() for c in self.guarded()) and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(LOOK_SECONDS)

    def guarded(self) -> list[GuardedProtocol]:
        """The connections that are open."""
        return [one for one in self.server_state.connections if isinstance(one, GuardedProtocol)]

    async def go_on_inspecting(self) -> None:
        while True:
            self.every_second()
            if not any(server.is_serving() for server in self.servers):
                for connection in self.guarded():  # also those that have said nothing of what they began to say
                    connection.shutdown()
            await asyncio.sleep(1)

    async def cut_off_when_forced(self) -> None:
        while not self.force_exit:
            await asyncio.sleep(0.05)
        for task in list(self.server_state.tasks):
            task.cancel()
        await asyncio.sleep(LAST_WORDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def serve(config: Config) -> int:
    """Run the service in this process until a signal ends it; returns the exit code."""
    settings = config.server
    start_logging(settings.log_level, settings.log_format)
    allow_connections()

    def listening() -> Listener:
        listener = listen(settings)
        announce(config, address(settings, None if settings.uds else listener.socket.getsockname()[1]))
        return listener

    return run_server(config, ServiceState(config), listening)


def cannot_listen(settings: ServerSettings, error: OSError) -> int:
    print(f"assay: cannot listen on {address(settings).removeprefix('unix:')}: {error.strerror}", file=sys.stderr)
    return FAILED


def run_server(config: Config, state: ServiceState, listening: Callable[[], Listener]) -> int:
    """Serve on what `listening` returns until a signal ends it; returns the exit code."""
    app = create_app(config, state=state)
    state.origin = OriginCheck(config.server)
    admission = state.admission
    guarded_by = uvicorn_config(app, config.server, state.metrics.rejected, lambda: admission.replies_full)
    state.selftests.append(lambda: check_protocol(guarded_by.http))  # type: ignore[arg-type]
    server = DrainingServer(guarded_by, state)
    server.take_signals()
    try:
        server.listener = listening()
    except OSError as error:
        return cannot_listen(config.server, error)
    try:
        server.run(sockets=[server.listener.socket])
    finally:
        server.listener.close()
    if state.cut_off:
        log.error("requests cut off: %d", state.cut_off)
    return DONE if server.started and not state.cut_off else FAILED


def uvicorn_config(
    app: object,
    settings: ServerSettings,
    rejected: Callable[[str], None] = lambda _kind: None,
    replies_full: Callable[[], bool] = lambda: False,
) -> uvicorn.Config:
    """How uvicorn serves `app`; `rejected` counts what is turned away before it is a request, and `replies_full` says
    that clients have to take their replies quickly.
    """
    limits = (
        *(settings.max_head_bytes, settings.max_body_bytes),
        *(settings.head_seconds, settings.body_seconds, settings.keep_alive_seconds),
        usable_descriptors(),
    )
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=guarded(Guard(*limits, rejected, replies_full)),
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=settings.backlog,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


def allow_connections() -> None:
    """As many open files as the system lets this user have: each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):  # an unlimited number, where the kernel has a limit of its own
        log.debug("the limit of open files stays what it is")


def usable_descriptors() -> int:
    """The number from which on descriptors are kept for other ends than connections."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    return most - min(SPARE_DESCRIPTORS, most // 4)


def announce(config: Config, url: str) -> None:
    """The one line that says where to go; people and scripts read the address from it."""
    workers = f" workers={config.server.workers}" if config.server.workers > 1 else ""
    identity = (url, os.getpid(), VERSION, config.score.config_id)
    log.info("serving url=%s pid=%d version=%s config_id=%s%s", *identity, workers)

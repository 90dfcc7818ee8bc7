"""One server process: uvicorn with Assay's startup, drain and exit."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

import uvicorn

from ...config import Config, ServerSettings
from ...terminal import compiling
from ..app import create_app
from ..request.access import OriginCheck
from ..request.readiness import Readiness
from ..state import ServiceState
from .balance import Balance
from .connection import GuardedProtocol, protocol_class
from .logs import announce, announce_drain, announce_ready, announce_stop
from .refusals import Guard
from .signals import DONE, ENDING, FAILED, REPEAT_SECONDS, end_process
from .sockets import Listener, cannot_listen, listen, raise_descriptor_limit, usable_descriptors

log = logging.getLogger("assay")

TICKS_A_SECOND = 10
ABORT_GRACE_SECONDS = 0.2
MAX_ACCEPTED = 16
"""Connections that are accepted in one turn of the event loop."""

ACCEPT_PAUSE_SECONDS = 0.1
"""Time for connections to close when no descriptor is left."""

POLL_SECONDS = 0.03
MIN_EMPTY_POLLS = 3
"""Polls in a row that must find the listen queue empty: handshakes take time."""

QUEUE_SECONDS = 1.0
FIRST_REQUEST_SECONDS = 1.0
"""Time for accepted connections to send their first request."""

BACKSTOP_SECONDS = 4.0
"""Time on top of all others, after which the kernel kills a process that is stuck."""


class DrainingServer(uvicorn.Server):
    """A server that reports itself as not ready before it shuts down.

    After the first SIGTERM it is not ready but still accepts connections for `drain_seconds`, so that load balancers
    can react. Then it accepts the connections in the listen queue, stops listening and finishes the requests in
    flight, for at most `shutdown_seconds`. SIGINT skips the first part; a second signal ends the process at once,
    unless it `repeats` the first one. Aborted requests are answered 503 and counted. Without any the exit code is 0,
    where uvicorn would raise the signal again.
    """

    listener: Listener

    def __init__(self, config: uvicorn.Config, state: ServiceState, balance: Balance | None = None) -> None:
        super().__init__(config)
        self.state = state
        self.balance = balance
        self.connecting: set[asyncio.Task[None]] = set()
        self.stop_at: float | None = None
        self.signalled_at = 0.0
        self.signal: signal.Signals | None = None
        """The first signal to end, until it is logged."""
        self.reload_keys = False
        self.startup_log = StartupLog(state.readiness, self.announce_ready)

    def announce_ready(self) -> None:
        """Log that the service is ready, unless a supervisor does."""
        if self.state.fleet is None:
            announce_ready(self.state.config, self.listener.address(self.state.config.server))

    def handle_signals(self) -> None:
        """Handle signals from now on, not only while uvicorn serves."""
        for number in ENDING:
            signal.signal(number, self.handle_exit)
        signal.signal(signal.SIGHUP, self.handle_reload)

    def handle_exit(self, sig: int, frame: FrameType | None = None) -> None:
        settings = self.state.config.server
        if self.state.fleet is not None and not self.started:
            end_process(DONE)  # a worker that does not listen yet: nothing depends on it yet
        max_seconds = ABORT_GRACE_SECONDS
        if self.state.readiness.draining:
            if self.repeats(sig):
                return
            self.should_exit = self.force_exit = True
        else:
            self.signalled_at = time.monotonic()
            self.signal = signal.Signals(sig)
            max_seconds += QUEUE_SECONDS + FIRST_REQUEST_SECONDS + settings.shutdown_seconds
            if sig == signal.SIGTERM:
                self.stop_at = time.monotonic() + settings.drain_seconds
                max_seconds += settings.drain_seconds
            else:
                self.should_exit = True
        self.state.readiness.draining = True
        if self.balance is not None:
            self.balance.leave()
        signal.setitimer(signal.ITIMER_REAL, max_seconds + BACKSTOP_SECONDS)  # SIGALRM kills without the GIL

    def repeats(self, sig: int) -> bool:
        """Return whether a second signal is the first one once more, which must not cut off any request.

        A worker gets SIGTERM from its supervisor, and from a program that signals every process of the service; its
        supervisor sends SIGINT to end it at once.
        """
        if self.state.fleet is not None:
            return sig == signal.SIGTERM
        return time.monotonic() - self.signalled_at < REPEAT_SECONDS

    def handle_reload(self, sig: int, frame: FrameType | None = None) -> None:
        self.reload_keys = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])  # uvicorn would accept only one connection per turn of the loop
        self.listener.socket.listen(self.config.backlog)
        self.listener.socket.setblocking(False)
        self.watch_listener()
        if self.balance is not None and not self.state.readiness.draining:
            self.balance.join(self.take)
        if self.state.fleet is not None:
            self.state.fleet.listens()

    def watch_listener(self) -> None:
        if self.listener.is_open:
            asyncio.get_running_loop().add_reader(self.listener.socket.fileno(), self.accept_waiting)

    def accept_waiting(self) -> None:
        """Accept what waits in the listen queue."""
        loop = asyncio.get_running_loop()
        try:
            for _ in range(MAX_ACCEPTED):
                connection, _ = self.listener.socket.accept()
                loop.call_soon(self.divide, connection)  # once what was closed in this turn is counted
        except BlockingIOError:
            pass
        except OSError:  # no descriptor is left
            loop.remove_reader(self.listener.socket.fileno())
            loop.call_later(ACCEPT_PAUSE_SECONDS, self.watch_listener)

    def divide(self, connection: socket.socket) -> None:
        """Serve a new connection, or pass it on to the worker with the fewest."""
        if self.balance is not None and self.balance.pass_on(connection.fileno()):
            connection.close()
        else:
            self.take(connection)

    def take(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        task = asyncio.ensure_future(self.connect(connection))
        self.connecting.add(task)
        task.add_done_callback(self.connecting.discard)

    async def connect(self, connection: socket.socket) -> None:
        protocol = partial(self.config.http_protocol_class, self.config, self.server_state, self.lifespan.state)  # type: ignore[call-arg]
        try:
            await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)
        except OSError:  # it was reset meanwhile
            connection.close()
            if self.balance is not None:
                self.balance.closed()

    async def on_tick(self, counter: int) -> bool:
        """Run periodic work, ten times a second; return True to leave the main loop."""
        self.startup_log.check()
        self.log_drain()
        if self.stop_at is not None and time.monotonic() >= self.stop_at:
            self.should_exit = True
        if self.reload_keys:
            self.reload_keys = False
            self.state.keys.follow(force=True)
        if counter % TICKS_A_SECOND == 0:
            self.periodic_checks()
        return await super().on_tick(counter)

    def log_drain(self) -> None:
        """Log the first signal unless a supervisor does; not in its handler, which may interrupt another line."""
        number, self.signal = self.signal, None
        if number is not None and self.state.fleet is None:
            seconds = self.state.config.server.drain_seconds if number == signal.SIGTERM else 0.0
            announce_drain(number.name, seconds, f"in flight: {len(self.server_state.tasks)}")

    def periodic_checks(self) -> None:
        now = time.monotonic()
        for connection in self.open_connections():
            connection.check_timeouts(now)
        self.state.admission.check()
        self.state.keys.follow()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening and finish requests in flight, until the time is up or a second signal arrives."""
        self.log_drain()
        aborting = asyncio.ensure_future(self.abort_when_forced())
        checking = asyncio.ensure_future(self.keep_checking())
        await self.take_last_connections()
        asyncio.get_running_loop().remove_reader(self.listener.socket.fileno())
        self.listener.close()
        await super().shutdown(sockets)
        if self.force_exit:
            await aborting
            await self.lifespan.shutdown()  # uvicorn skips it, and then reports an error
        elif self.state.aborted_requests:
            await asyncio.sleep(ABORT_GRACE_SECONDS)
        aborting.cancel()
        checking.cancel()
        for connection in list(self.server_state.connections):  # unread replies must not delay the exit
            connection.transport.abort()
        if self.state.fleet is not None:
            await self.state.fleet.ends(self.state.aborted_requests)

    async def take_last_connections(self) -> None:
        self.listener.stop_accepting()
        end = time.monotonic() + QUEUE_SECONDS
        empty_polls = 0
        while empty_polls < MIN_EMPTY_POLLS and time.monotonic() < end and not self.force_exit:
            empty_polls = 0 if self.listener.has_waiting() else empty_polls + 1
            await asyncio.sleep(POLL_SECONDS)
        end = time.monotonic() + FIRST_REQUEST_SECONDS
        while not self.force_exit and time.monotonic() < end:
            if not any(connection.may_send_request() for connection in self.open_connections()):
                break
            await asyncio.sleep(POLL_SECONDS)

    def open_connections(self) -> list[GuardedProtocol]:
        connections = self.server_state.connections
        return [connection for connection in connections if isinstance(connection, GuardedProtocol)]

    async def keep_checking(self) -> None:
        while True:
            self.periodic_checks()
            if not self.listener.is_open:
                for connection in self.open_connections():  # also with an incomplete request
                    connection.shutdown()
            await asyncio.sleep(1)

    async def abort_when_forced(self) -> None:
        while not self.force_exit:
            await asyncio.sleep(0.05)
        for task in list(self.server_state.tasks):
            task.cancel()
        await asyncio.sleep(ABORT_GRACE_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def serve(config: Config) -> int:
    if not raise_descriptor_limit():
        return FAILED

    def listening() -> Listener:
        listener = listen(config.server)
        announce(config, listener.address(config.server))
        return listener

    return run_server(config, ServiceState(config), listening)


def run_server(
    config: Config, state: ServiceState, listening: Callable[[], Listener], balance: Balance | None = None
) -> int:
    """Serve on the listener that `listening` opens until a signal ends it; return the exit code."""
    app = create_app(config, state=state)
    state.origin = OriginCheck(config.server)
    admission = state.admission
    uvicorn_settings = uvicorn_config(
        app, config.server, state.metrics.rejected, lambda: admission.replies_full, balance
    )
    server = DrainingServer(uvicorn_settings, state, balance)
    server.handle_signals()
    try:
        server.listener = listening()
    except OSError as error:
        return cannot_listen(config.server, error)
    try:
        server.run()
    finally:
        server.listener.close()
    if state.aborted_requests:
        log.error("requests cut off: %d", state.aborted_requests)
    if server.started and state.fleet is None:
        announce_stop(time.monotonic() - server.signalled_at, state.metrics.answered, state.aborted_requests)
    return DONE if server.started and not state.aborted_requests else FAILED


def uvicorn_config(
    app: object,
    settings: ServerSettings,
    rejected: Callable[[str], None] = lambda _kind: None,
    replies_full: Callable[[], bool] = lambda: False,
    balance: Balance | None = None,
) -> uvicorn.Config:
    """Return the uvicorn configuration; `rejected` counts refusals, and clients must read fast while `replies_full`."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=protocol_class(Guard(settings, usable_descriptors(), rejected, replies_full, balance)),
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


PROGRESS_SECONDS = 10.0  # between two log lines about kernels that are compiled


class StartupLog:
    def __init__(self, readiness: Readiness, ready: Callable[[], None]) -> None:
        self._readiness = readiness
        self._ready = ready
        self._next = 0.0
        self._ended = False

    def check(self) -> None:
        if self._ended:
            return
        if not self._readiness.starting:
            self._ended = True
            if self._readiness.obstacle is None:
                self._ready()
        elif time.monotonic() >= self._next and (state := compiling()) is not None:
            self._next = time.monotonic() + PROGRESS_SECONDS
            log.info("compiling kernels (once on this machine): %d of %d functions", *state)

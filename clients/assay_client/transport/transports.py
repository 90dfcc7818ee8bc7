"""HTTP exchanges over a pool of connections, and what may go wrong with them."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import weakref
from functools import lru_cache
from time import monotonic

from ..errors import Unavailable
from ..results import HttpReply
from .addresses import Address
from .connecting import connected_socket, promising, put_last, resolved, restore
from .http11 import HttpConnection, HttpExchange, TransportFault
from .waiting import READ, WRITE, OnLoop, Waiting

MAX_IDLE_SECONDS = 30.0
"""After this an idle connection is no longer used: well before the service closes it (75 s)."""

MAX_IDLE_CONNECTIONS = 64

NOT_TLS = {
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL"),
    *("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"),
}
"""Reasons that versions of OpenSSL give if the first bytes of a reply are not TLS but, for example, HTTP."""

CLOSED_IN_HANDSHAKE = "the connection was closed during the TLS handshake: the port may not speak TLS"


class Transport:
    """The connections of one client in one process, for all its threads and event loops."""

    def __init__(self, connect_timeout: float, waiting: Waiting) -> None:
        self._connect_timeout = connect_timeout
        self._waiting = waiting
        self._open: weakref.WeakSet[HttpConnection] = weakref.WeakSet()
        self._idle: dict[Address, list[tuple[float, HttpConnection]]] = {}
        self._lock = threading.Lock()

    async def exchange(self, request: HttpExchange) -> HttpReply:
        """Send one request and read its response; raise TransportFault. The connection is kept if it is reusable."""
        address = request.address
        seconds = min(request.seconds, request.deadline - monotonic())  # a free connection may have taken a while
        end = monotonic() + seconds
        connection = self._take(address)
        reusable = False
        try:
            if connection is None:
                connection = await self._connect(address, min(seconds, self._connect_timeout))
            share = (request.deadline - monotonic()) / promising(connection.targets, connection.target)
            reply, reusable = await connection.exchange(request, min(end, monotonic() + share))
            restore(connection.target)
            if reusable:
                self._put(connection, address)
            return reply
        except (OSError, TransportFault) as error:
            fault = connection_fault(error, connection)
            if connection is not None and not fault.stale:
                put_last(connection.target)
            if fault.stale or (connection is not None and len(connection.targets) > 1):
                self.close(address)
            raise fault from error
        finally:
            if connection is not None and not reusable:
                connection.close()

    def close(self, address: Address | None = None) -> None:
        """Close all idle connections, or only the idle connections to one service."""
        with self._lock:
            addresses = list(self._idle) if address is None else [address]
            closed = [connection for key in addresses for _, connection in self._idle.pop(key, [])]
        for connection in closed:
            connection.close()

    def abandon(self) -> None:
        """Close a forked child's copies of its parent's connections, which stay open in the parent.

        The lock is not taken: another thread of the parent may have held it, and never releases it here.
        """
        for connection in list(self._open):
            connection.close()
        self._idle, self._lock = {}, threading.Lock()

    def __del__(self) -> None:
        self.close()

    def _take(self, address: Address) -> HttpConnection | None:
        while True:
            with self._lock:
                idle = self._idle.get(address)
                if not idle:
                    return None
                since, connection = idle.pop()
            if monotonic() - since < MAX_IDLE_SECONDS and connection.is_idle():
                connection.reused, connection.started = True, False
                return connection
            connection.close()

    def _put(self, connection: HttpConnection, address: Address) -> None:
        with self._lock:
            idle = self._idle.setdefault(address, [])
            idle.append((monotonic(), connection))
            oldest = idle.pop(0)[1] if len(idle) > MAX_IDLE_CONNECTIONS else None
        if oldest is not None:
            oldest.close()

    async def _connect(self, address: Address, seconds: float) -> HttpConnection:
        end = monotonic() + seconds
        targets = await resolved(address, seconds, self._waiting)
        sock, target = await connected_socket(targets, end, self._waiting)
        try:
            if address.tls:
                sock = tls_context().wrap_socket(sock, server_hostname=address.host, do_handshake_on_connect=False)
                share = (end - monotonic()) / promising(targets, target)
                await shake_hands(sock, monotonic() + share, self._waiting)
            connection = HttpConnection(sock, self._waiting, target, targets)
            self._open.add(connection)  # for a child that is forked meanwhile
            return connection
        except BaseException as error:
            if isinstance(error, (OSError, TransportFault)):
                put_last(target)
            sock.close()
            raise


class AsyncTransport(Transport):
    """A transport whose event loops have a maximum number of connections each."""

    def __init__(self, connect_timeout: float, max_connections: int) -> None:
        super().__init__(connect_timeout, OnLoop())
        self._max_connections = max_connections
        self._permits: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._permits_lock = threading.Lock()

    async def exchange(self, request: HttpExchange) -> HttpReply:
        """Raise also Unavailable, if no connection is free until the deadline of the call."""
        permits = self._permits_of(asyncio.get_running_loop())
        try:
            if permits.locked():
                await asyncio.wait_for(permits.acquire(), request.deadline - monotonic())
            else:
                await permits.acquire()
        except asyncio.TimeoutError:
            raise Unavailable("no reward: no connection was free within the deadline") from None
        try:
            return await super().exchange(request)
        finally:
            permits.release()

    def _permits_of(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        with self._permits_lock:
            if loop not in self._permits:
                for ended in [candidate for candidate in self._permits if candidate.is_closed()]:
                    del self._permits[ended]
                self._permits[loop] = asyncio.Semaphore(self._max_connections)
            return self._permits[loop]


async def shake_hands(sock: ssl.SSLSocket, end: float, waiting: Waiting) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:  # noqa: PERF203
            await waiting.until(sock, READ, end)
        except ssl.SSLWantWriteError:
            await waiting.until(sock, WRITE, end)
        except ConnectionError as error:
            raise TransportFault(CLOSED_IN_HANDSHAKE) from error
        else:
            return


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Return a context that verifies certificates against the authorities of the system or of SSL_CERT_FILE."""
    return ssl.create_default_context()


def connection_fault(error: Exception, connection: HttpConnection | None) -> TransportFault:
    """Return a TransportFault for what went wrong on a connection, or, if that is None, while it was opened."""
    stale = connection is not None and connection.reused and not connection.started
    if isinstance(error, TransportFault):
        return TransportFault(error.detail, stale, error.final)
    if isinstance(error, TimeoutError):
        return TransportFault("no connection in time" if connection is None else "no reply in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportFault(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLError):  # its errno is OpenSSL's, not the operating system's
        if connection is None and error.reason in NOT_TLS:
            return TransportFault("the port does not speak TLS: use http:// instead of https://", final=True)
        return TransportFault(tls_failure(error, connection is not None), stale)
    code = getattr(error, "errno", None)
    name = os.strerror(code) if isinstance(code, int) and code > 0 else str(error) or type(error).__name__
    return TransportFault(name.lower(), stale)


def tls_failure(error: ssl.SSLError, connected: bool) -> str:
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed in the middle of a reply" if connected else CLOSED_IN_HANDSHAKE
    return f"TLS failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})"

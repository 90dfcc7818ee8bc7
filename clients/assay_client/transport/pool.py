"""Base of both transports: exchanges, the pool of idle connections, TLS, and the errors of connections."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
import weakref
from functools import lru_cache
from time import monotonic

from ..replies import HttpReply
from .addresses import Address
from .http11 import Connection, HttpExchange, TransportFault

__all__ = ["CLOSED_IN_HANDSHAKE", "Pool", "Transport", "tls_context"]

MAX_IDLE_SECONDS = 30.0
"""After this an idle connection is no longer used: well before the service closes it (75 s)."""

MAX_IDLE_CONNECTIONS = 64

NOT_TLS = {
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL"),
    *("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"),
}
"""Reasons that versions of OpenSSL give if the first bytes of a reply are not TLS but, for example, HTTP."""

CLOSED_IN_HANDSHAKE = "the connection was closed during the TLS handshake: the port may not speak TLS"


class Pool:
    """Idle connections of one client in one process, by event loop (None: they block) and service. Thread-safe."""

    def __init__(self) -> None:
        self._idle: dict[tuple[asyncio.AbstractEventLoop | None, Address], list[tuple[float, Connection]]] = {}
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._lock = threading.Lock()

    def take(self, address: Address, loop: asyncio.AbstractEventLoop | None = None) -> Connection | None:
        while True:
            with self._lock:
                idle = self._idle.get((loop, address))
                if not idle:
                    return None
                since, connection = idle.pop()
            if monotonic() - since < MAX_IDLE_SECONDS and connection.is_idle():
                connection.reused, connection.started = True, False
                return connection
            connection.close()

    def register(self, connection: Connection) -> None:
        """Remember a new connection, which is in use, for a child that is forked meanwhile."""
        self._open.add(connection)

    def put(self, connection: Connection, address: Address, loop: asyncio.AbstractEventLoop | None = None) -> None:
        with self._lock:
            idle = self._idle.setdefault((loop, address), [])
            idle.append((monotonic(), connection))
            oldest = idle.pop(0)[1] if len(idle) > MAX_IDLE_CONNECTIONS else None
        if oldest is not None:
            oldest.close()

    def close(self, address: Address | None = None, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Close all connections, or only the connections of a service or of an event loop."""
        with self._lock:
            keys = [key for key in self._idle if (loop is None or key[0] is loop) and address in (None, key[1])]
            closed = [connection for key in keys for _, connection in self._idle.pop(key)]
        for connection in closed:
            connection.close()

    def abandon(self) -> None:
        """Close a forked child's copies of its parent's connections, which stay open in the parent.

        The lock is not taken: another thread of the parent may have held it, and never releases it here. Nor is an
        event loop used, whose selector the parent shares.
        """
        for connection in list(self._open):
            connection.sock.close()
        self._inherited = self._idle  # else the garbage collector would end them through the parent's loops
        self._idle, self._lock = {}, threading.Lock()

    def __del__(self) -> None:
        self.close()


class Transport:
    """Connections of one client in one process; the coroutines of the transport that blocks never suspend."""

    def __init__(self, connect_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self.pool = Pool()

    async def exchange(self, request: HttpExchange, loop: asyncio.AbstractEventLoop | None = None) -> HttpReply:
        """Send one request and read its response; raise TransportFault. The connection is kept if it is reusable."""
        address = request.address
        seconds = min(request.seconds, request.deadline - monotonic())  # a free connection may have taken a while
        end = monotonic() + seconds
        connection = self.pool.take(address, loop)
        reusable = False
        try:
            if connection is None:
                connection = await self._connect(address, min(seconds, self._connect_timeout))
                self.pool.register(connection)
            reply, reusable = await connection.exchange(request, end)
            if reusable:
                self.pool.put(connection, address, loop)
            return reply
        except (OSError, asyncio.TimeoutError, TransportFault) as error:
            fault = connection_fault(error, connection)
            if fault.stale:
                self.pool.close(address, loop)
            raise fault from error
        finally:
            if connection is not None and not reusable:
                connection.close()

    async def _connect(self, address: Address, seconds: float) -> Connection:
        raise NotImplementedError


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Return a context that verifies certificates against the authorities of the system or of SSL_CERT_FILE."""
    return ssl.create_default_context()


def connection_fault(error: Exception, connection: Connection | None) -> TransportFault:
    """Return a TransportFault for what went wrong on a connection, or, if that is None, while it was opened."""
    stale = connection is not None and connection.reused and not connection.started
    if isinstance(error, TransportFault):
        return TransportFault(error.detail, stale)
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return TransportFault("no connection in time" if connection is None else "no reply in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return TransportFault(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLError):  # its errno is OpenSSL's, not the operating system's
        return TransportFault(tls_failure(error, connection is not None), stale)
    code = getattr(error, "errno", None)
    name = os.strerror(code) if isinstance(code, int) and code > 0 else str(error) or type(error).__name__
    return TransportFault(name.lower(), stale)


def tls_failure(error: ssl.SSLError, connected: bool) -> str:
    if not connected and error.reason in NOT_TLS:
        return "the port does not speak TLS: use http:// instead of https://"
    if isinstance(error, ssl.SSLEOFError):
        return "the connection was closed in the middle of a reply" if connected else CLOSED_IN_HANDSHAKE
    return f"TLS failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})"

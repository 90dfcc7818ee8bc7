"""Helpers that both transports share: idle connections, TLS, and errors of sockets."""

from __future__ import annotations

import os
import select
import socket
import ssl
import sys
from functools import lru_cache
from time import monotonic
from typing import Generic, Protocol, TypeVar

from .addresses import Address
from .http11 import Fault

__all__ = ["CHUNK_BYTES", "IdleConnections", "connection_fault", "is_still_idle", "tls_context"]

MAX_IDLE_SECONDS = 30.0
"""After this an idle connection is no longer used: well before the service closes it (75 s)."""

MAX_IDLE_CONNECTIONS = 64
"""Idle connections kept per service."""

NOT_TLS = {
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL"),
    *("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"),
}
"""Reasons that versions of OpenSSL give if the first bytes of a reply are not TLS but, for example, HTTP."""

CHUNK_BYTES = 1 << 18
"""Bytes read or written at once."""


class Closable(Protocol):
    """A connection that may be idle."""

    sock: socket.socket

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class IdleConnections(Generic[C]):
    """Idle connections by service, the most recently used first. Not thread-safe."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[tuple[float, C]]] = {}

    def take(self, address: Address) -> C | None:
        """Return a connection that still appears open, or None."""
        kept = self._idle.get(address, [])
        while kept:
            since, connection = kept.pop()
            if monotonic() - since < MAX_IDLE_SECONDS and is_still_idle(connection.sock):
                return connection
            connection.close()
        return None

    def put(self, address: Address, connection: C) -> None:
        """Keep a connection after its exchange is complete."""
        kept = self._idle.setdefault(address, [])
        kept.append((monotonic(), connection))
        if len(kept) > MAX_IDLE_CONNECTIONS:
            kept.pop(0)[1].close()

    def drop(self, address: Address) -> None:
        """Close all connections to a service that has disconnected."""
        for _, connection in self._idle.pop(address, []):
            connection.close()

    def close(self) -> None:
        """Close all connections."""
        for address in list(self._idle):
            self.drop(address)


def is_still_idle(sock: socket.socket) -> bool:
    """Return whether an idle connection has neither been closed by its peer nor received unexpected bytes."""
    try:
        if sys.platform == "win32":
            return not select.select([sock], [], [], 0)[0]
        poll = select.poll()  # not select(), which is limited to descriptors below 1024
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Return a context that verifies certificates against the system's authorities or those of SSL_CERT_FILE."""
    return ssl.create_default_context()


def connection_fault(error: BaseException, connected: bool, reused: bool, started: bool) -> Fault:
    """Return a Fault for an error of the operating system or of TLS; `started`: bytes of the reply have arrived."""
    if isinstance(error, Fault):
        return Fault(error.detail, stale=reused and not started)
    if isinstance(error, TimeoutError):
        return Fault("no reply in time" if connected else "no connection in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLError):  # its errno is OpenSSL's, not the operating system's
        return Fault(tls_failure(error, connected), stale=reused and not started)
    code = getattr(error, "errno", None)
    name = os.strerror(code) if isinstance(code, int) and code > 0 else str(error) or type(error).__name__
    return Fault(str(name).lower(), stale=reused and not started)


def tls_failure(error: ssl.SSLError, connected: bool) -> str:
    if not connected and error.reason in NOT_TLS:
        return "the port does not speak TLS: use http:// instead of https://"
    if isinstance(error, ssl.SSLEOFError):
        where = "in the middle of a reply" if connected else "during the TLS handshake: the port may not speak TLS"
        return f"the connection was closed {where}"
    return f"TLS failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})"

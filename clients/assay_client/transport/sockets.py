"""What both transports do with sockets."""

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

__all__ = ["RECEIVED", "IdleConnections", "connection_fault", "is_quiet", "tls_context"]

MAX_IDLE_SECONDS = 30.0
"""Seconds after which an idle connection is no longer used: well before the service closes it (75 s)."""

MAX_IDLE_CONNECTIONS = 64
"""Idle connections kept for one service."""

NOT_TLS = {
    *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "UNKNOWN_PROTOCOL"),
    *("HTTP_REQUEST", "HTTPS_PROXY_REQUEST"),
}
"""What OpenSSL, version by version, says about the first bytes of a reply that is not TLS, such as one of HTTP."""

RECEIVED = 1 << 18
"""Bytes asked for at once."""


class Closable(Protocol):
    """A connection that may be idle."""

    sock: socket.socket

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class IdleConnections(Generic[C]):
    """Idle connections by service, the last used first. No lock of its own."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[tuple[float, C]]] = {}

    def take(self, address: Address) -> C | None:
        """One that is still open as far as can be seen, or None."""
        kept = self._idle.get(address, [])
        while kept:
            since, connection = kept.pop()
            if monotonic() - since < MAX_IDLE_SECONDS and is_quiet(connection.sock):
                return connection
            connection.close()
        return None

    def put(self, address: Address, connection: C) -> None:
        """Keep a connection on which nothing is under way."""
        kept = self._idle.setdefault(address, [])
        kept.append((monotonic(), connection))
        if len(kept) > MAX_IDLE_CONNECTIONS:
            kept.pop(0)[1].close()

    def drop(self, address: Address) -> None:
        """Close all to a service that has gone."""
        for _, connection in self._idle.pop(address, []):
            connection.close()

    def close(self) -> None:
        """Close all."""
        for address in list(self._idle):
            self.drop(address)


def is_quiet(sock: socket.socket) -> bool:
    """Whether nothing has come on an idle connection: its end, or bytes that nobody asked for, make it useless."""
    try:
        if sys.platform == "win32":
            return not select.select([sock], [], [], 0)[0]
        poll = select.poll()  # not select(), which knows no descriptor above 1023
        poll.register(sock, select.POLLIN)
        return not poll.poll(0)
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=1)
def tls_context() -> ssl.SSLContext:
    """Certificates are checked, against the system's authorities or those of SSL_CERT_FILE."""
    return ssl.create_default_context()


def connection_fault(error: BaseException, reading: bool, reused: bool, begun: bool) -> Fault:
    """A Fault for an error of the operating system or of TLS; `reading` says that the connection was open before."""
    if isinstance(error, Fault):
        return Fault(error.what, stale=reused and not begun)
    if isinstance(error, TimeoutError):
        return Fault("no reply in time" if reading else "no connection in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return Fault(f"its certificate is not trusted ({error.verify_message})")
    if isinstance(error, ssl.SSLError):  # whose numbers are OpenSSL's, not the operating system's
        return Fault(tls_failure(error, reading), stale=reused and not begun)
    number = getattr(error, "errno", None)
    name = os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__
    return Fault(str(name).lower(), stale=reused and not begun)


def tls_failure(error: ssl.SSLError, reading: bool) -> str:
    if not reading and error.reason in NOT_TLS:
        return "the port does not speak TLS: http:// is meant, in place of https://"
    if isinstance(error, ssl.SSLEOFError):
        where = "in the middle of a reply" if reading else "during the TLS handshake: the port may not speak TLS"
        return f"the connection was closed {where}"
    return f"TLS failed ({(error.reason or type(error).__name__).replace('_', ' ').lower()})"

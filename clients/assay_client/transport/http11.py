"""HTTP/1.1 over a pool of connections.

`http.client` reads a head with the parser of e-mail, which costs more than the rest of a small call, and tolerates what
must not be scored (docs/decisions/client-without-dependencies.md).
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import ssl
import sys
import threading
import weakref
from collections.abc import Mapping
from functools import lru_cache
from time import monotonic
from typing import NamedTuple

from ..results import HttpReply
from .addresses import Address

STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\0\r\n]*)?")
HEADER = re.compile(r"([-!#$%&'*+.^_`|~\w]+):([^\0\r\n]*)", re.ASCII)
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
LENGTH = re.compile(r"[0-9]{1,18}")
TLS_ALERT = b"\x15\x03"
MAX_HEAD = 65_536
"""Bytes of a response's head, and of a chunk-size line."""

MAX_BODY = 1 << 30
"""Bytes of a response's body: 65,536 responses with all columns need some 20 MiB."""

CHUNK_BYTES = 1 << 18


class TransportFault(Exception):
    """A failed exchange, which may be retried; `stale` if a pooled connection was closed before any byte arrived."""

    def __init__(self, detail: str, stale: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.stale = stale


class HttpExchange(NamedTuple):
    """One request to send, whose response must be complete within `seconds` of a connection being free."""

    address: Address
    head: bytes
    body: bytes
    seconds: float
    deadline: float
    """End of the call on the monotonic clock: until then it waits for a free connection."""


def request_head(method: str, address: Address, route: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{method} {address.prefix}{route} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Accept: application/json", "", ""]).encode("latin-1")


class Connection:
    """An open connection, and the reader of its responses. The transports derive from it what sends and receives."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reused = False
        self.started = False
        self._received = bytearray()

    async def exchange(self, request: HttpExchange, end: float) -> tuple[HttpReply, bool]:
        """Return the reply by `end`, and whether the connection is reusable; raise TransportFault or its cause."""
        raise NotImplementedError

    async def receive(self) -> bytes:
        """Return the next bytes, empty at the end of the stream; all that have arrived, also those after a reply."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        """Return whether it has neither been closed by its peer nor received bytes since its last exchange."""
        try:
            if sys.platform == "win32":
                return not select.select([self.sock], [], [], 0)[0]
            poll = select.poll()  # not select(), which is limited to descriptors below 1024
            poll.register(self.sock, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        self.sock.close()

    async def read_reply(self) -> tuple[HttpReply, bool]:
        """Return the next reply, and whether the connection may carry another exchange (RFC 9112, section 6.3)."""
        status = 0
        while status < 200:  # the final response follows interim ones
            keep_alive, status, headers = await self._read_head()
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if length is not None:  # proxies that disagree about the end would let one reply pass for another
                raise TransportFault("the reply has both Content-Length and Transfer-Encoding")
            if coding.lower() != "chunked":
                raise TransportFault("the reply has an unknown transfer coding")
            body = await self._read_chunks()
        elif status in (204, 304):
            body = b""
        elif length is None:
            keep_alive, body = False, await self._read_to_end()
        elif LENGTH.fullmatch(length):
            body = await self._read_exactly(check_length(int(length)))
        else:
            raise TransportFault("the reply has a malformed Content-Length")
        return HttpReply(status, headers, body), keep_alive and not self._received

    async def _read_head(self) -> tuple[bool, int, dict[str, str]]:
        """Return whether the connection stays open, the status, and the headers by their names in lower case."""
        await self._fill(4)
        if self._received.startswith(TLS_ALERT):
            raise TransportFault("the port speaks TLS: use https:// instead of http://")
        if not self._received.startswith(b"HTTP"):  # a service of another protocol may wait for more
            raise TransportFault("the reply is not HTTP")
        first, *lines = (await self._read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status_line = STATUS_LINE.fullmatch(first)
        if status_line is None:
            raise TransportFault("the reply is not HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            header = HEADER.fullmatch(line)
            if header is None:
                raise TransportFault("the reply has a malformed header")
            name, value = header[1].lower(), header[2].strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        keep_alive = status_line[1] == "1" and "close" not in headers.get("connection", "").lower()
        return keep_alive, int(status_line[2]), headers

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = CHUNK_SIZE.fullmatch(await self._read_until(b"\r\n"))
            if size is None:
                raise TransportFault("the reply has a malformed chunk")
            length = int(size[1], 16)
            if not length:
                break
            check_length(len(body) + length)
            body += await self._read_exactly(length)
            if await self._read_exactly(2) != b"\r\n":
                raise TransportFault("a chunk of the reply is longer than announced")
        while await self._read_until(b"\r\n"):
            pass  # trailers
        return bytes(body)

    async def _read_to_end(self) -> bytes:
        while await self._receive_more():
            check_length(len(self._received))
        return self._take(check_length(len(self._received)))

    async def _read_until(self, end: bytes) -> bytes:
        """Return what precedes `end`, and skip both."""
        while (pos := self._received.find(end, 0, MAX_HEAD)) < 0:
            if len(self._received) > MAX_HEAD:
                raise TransportFault(f"the head of the reply exceeds {MAX_HEAD} bytes")
            await self._fill(len(self._received) + 1)
        return self._take(pos + len(end))[:pos]

    async def _read_exactly(self, length: int) -> bytes:
        await self._fill(length)
        return self._take(length)

    async def _fill(self, length: int) -> None:
        while len(self._received) < length:
            if not await self._receive_more():
                missing = "in the middle of" if self.started else "without"
                raise TransportFault(f"the connection was closed {missing} a reply")

    async def _receive_more(self) -> bool:
        received = await self.receive()
        self.started = self.started or bool(received)
        self._received += received
        return bool(received)

    def _take(self, length: int) -> bytes:
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken


def check_length(length: int) -> int:
    if length > MAX_BODY:
        raise TransportFault(f"the body of the reply exceeds {MAX_BODY} bytes")
    return length


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

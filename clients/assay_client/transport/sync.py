"""HTTP exchanges over blocking sockets, read by `http.client`."""

from __future__ import annotations

import io
import socket
from http.client import HTTPException
from time import monotonic
from typing import IO

from ..replies import Reply
from .addresses import Address
from .connecting import connected_socket
from .http11 import CHUNK_BYTES, Exchange, Fault, check_length, closed_early, read_head, reply_of
from .pool import Pool, connection_fault, is_still_idle, tls_context

__all__ = ["SyncTransport"]


class SyncTransport:
    """Connections of one client in one process. Thread-safe."""

    def __init__(self, connect_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self.pool: Pool[Connection] = Pool()

    def exchange(self, request: Exchange) -> Reply:
        """Send one request and read its response; raise Fault. The connection is kept if it is reusable."""
        address, end = request.address, monotonic() + request.seconds
        connection = self.pool.take(address)
        reusable = False
        try:
            if connection is None:
                connection = connect(address, min(request.seconds, self._connect_timeout))
            reply, reusable = connection.exchange(request, end)
            if reusable:
                self.pool.put(connection, address)
            return reply
        except (OSError, HTTPException, Fault) as error:
            fault = connection_fault(error, connection)
            if fault.stale:
                self.pool.close(address)
            raise fault from error
        finally:
            if connection is not None and not reusable:
                connection.close()


class Connection(io.RawIOBase):
    """One open connection, whose reads end by the deadline of its exchange."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self.sock = sock
        self.reused = self.started = False
        self._end: float | None = None
        self._closed_by_peer = False
        self._reader = Reader(self, CHUNK_BYTES)

    def exchange(self, request: Exchange, end: float) -> tuple[Reply, bool]:
        """Return the reply to a request, and whether the connection is reusable; raise Fault or its cause."""
        self._end = end
        send_error = self._send(request.head, request.body)
        try:
            response = read_head(self)
            while response.status < 200:  # an interim response: the final one follows
                response = read_head(self)
            if self._closed_by_peer:  # which `http.client` takes for the end of the head
                raise closed_early(b"head")
            framed = response.chunked or response.length is not None
            body = bytearray()
            while received := response.read(CHUNK_BYTES):
                body += received
                check_length(len(body))
            if framed and self._closed_by_peer:
                raise closed_early(b"body")
        except (OSError, HTTPException, Fault) as error:
            raise send_error or error from error
        self._end = None
        reusable = not response.will_close and not self._reader.peek(1) and send_error is None
        return reply_of(response, bytes(body)), reusable

    def _send(self, head: bytes, body: bytes) -> OSError | None:
        try:
            self.sock.settimeout(self._remaining())
            if len(body) < CHUNK_BYTES:
                self.sock.sendall(head + body)
            else:
                self.sock.sendall(head)
                self.sock.sendall(body)
        except TimeoutError:
            raise
        except OSError as error:
            return error  # a service that rejects a body may reply before it has read all of it
        return None

    def _remaining(self) -> float:
        assert self._end is not None
        seconds = self._end - monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def readinto(self, buffer: memoryview, /) -> int | None:  # type: ignore[override]
        """Receive bytes until the deadline; outside an exchange, none."""
        if self._end is None:
            return None
        self.sock.settimeout(self._remaining())
        received = self.sock.recv_into(buffer)
        self.started = self.started or received > 0
        self._closed_by_peer = not received
        return received

    def readable(self) -> bool:
        return True

    def makefile(self, _mode: str, /) -> IO[bytes]:
        """Return the same reader to every response, so that bytes after one are noticed."""
        return self._reader

    def is_idle(self) -> bool:
        return is_still_idle(self.sock)

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()
        super().close()


class Reader(io.BufferedReader):
    """Reader that responses share, and therefore do not close."""

    def close(self) -> None:
        """Do nothing."""


def connect(address: Address, seconds: float) -> Connection:
    """Open a connection; raise OSError or TimeoutError."""
    end = monotonic() + seconds
    sock = connected_socket(address, seconds)
    try:
        sock.settimeout(max(end - monotonic(), 0.001))
        return Connection(tls_context().wrap_socket(sock, server_hostname=address.host) if address.tls else sock)
    except BaseException:
        sock.close()
        raise

"""HTTP exchanges over blocking sockets, with a thread-safe pool of idle connections."""

from __future__ import annotations

import socket
import threading
from time import monotonic

from ..replies import Reply
from .addresses import Address
from .connecting import connected_socket
from .http11 import Fault, ResponseReader
from .sockets import CHUNK_BYTES, IdleConnections, connection_fault, tls_context

__all__ = ["SyncTransport"]


class Connection:
    """One open connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def close(self) -> None:
        self.sock.close()


class SyncTransport:
    """Connections of one client in one process."""

    def __init__(self, connect_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self._idle: IdleConnections[Connection] = IdleConnections()
        self._lock = threading.Lock()

    def exchange(self, address: Address, head: bytes, body: bytes, seconds: float) -> Reply:
        """Send one request and read its response; raise Fault. The connection is kept if it is reusable."""
        end = monotonic() + seconds
        with self._lock:
            connection = self._idle.take(address)
        reused = connection is not None
        reader = ResponseReader()
        connected = reused
        try:
            if connection is None:
                connection = connect(address, min(seconds, self._connect_timeout))
                connected = True
            send_and_receive(connection.sock, head, body, reader, end)
            if reader.reusable:
                with self._lock:
                    self._idle.put(address, connection)
                connection = None
            return reader.reply
        except (OSError, Fault) as error:
            fault = connection_fault(error, connected, reused, reader.started)
            if fault.stale:
                with self._lock:
                    self._idle.drop(address)
            raise fault from error
        finally:
            if connection is not None:
                connection.close()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            self._idle.close()

    def abandon(self) -> None:
        """Close a forked child's copies of its parent's connections, which stay open in the parent.

        The lock is not taken: another thread of the parent may have held it, and never releases it here.
        """
        self._idle.close()

    def __del__(self) -> None:
        self._idle.close()


def connect(address: Address, seconds: float) -> Connection:
    if address.socket_path is not None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(seconds)
            sock.connect(address.socket_path)
        except BaseException:
            sock.close()
            raise
        return Connection(sock)
    sock = connected_socket(address.host, address.port, seconds)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return Connection(tls_context().wrap_socket(sock, server_hostname=address.host) if address.tls else sock)
    except BaseException:
        sock.close()
        raise


def send_and_receive(sock: socket.socket, head: bytes, body: bytes, reader: ResponseReader, end: float) -> None:
    """Send, then read until the response is complete."""
    send_error: OSError | None = None
    try:
        sock.settimeout(remaining(end))
        if len(body) < CHUNK_BYTES:
            sock.sendall(head + body)
        else:
            sock.sendall(head)
            sock.sendall(body)
    except TimeoutError:
        raise
    except OSError as error:
        send_error = error  # a service that rejects a body may reply before it has read all of it
    try:
        while not reader.done:
            sock.settimeout(remaining(end))
            reader.feed(sock.recv(CHUNK_BYTES))
    except (OSError, Fault) as error:
        raise send_error or error from error


def remaining(end: float) -> float:
    seconds = end - monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds

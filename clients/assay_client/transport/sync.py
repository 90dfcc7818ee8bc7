"""HTTP exchanges over sockets that block."""

from __future__ import annotations

from collections.abc import Coroutine
from time import monotonic
from typing import Any, TypeVar

from ..results import HttpReply
from .addresses import Address
from .connecting import connected_socket, resolved
from .http11 import CHUNK_BYTES, Connection, HttpExchange, Transport, TransportFault, tls_context

__all__ = ["SyncTransport", "completed"]

T = TypeVar("T")
RECEIVED_BYTES = 1 << 16


class SyncTransport(Transport):
    """Connections of one client in one process. Thread-safe; its coroutines never suspend."""

    async def _connect(self, address: Address, seconds: float) -> Connection:
        end = monotonic() + seconds
        targets = resolved(address, seconds)
        sock = connected_socket(targets, end - monotonic())
        try:
            sock.settimeout(max(end - monotonic(), 0.001))
            if address.tls:
                sock = tls_context().wrap_socket(sock, server_hostname=address.host)
            return BlockingConnection(sock)
        except BaseException:
            sock.close()
            raise


class BlockingConnection(Connection):
    """A connection whose reads and writes end by the deadline of its exchange."""

    _end: float

    async def exchange(self, request: HttpExchange, end: float) -> tuple[HttpReply, bool]:
        self._end = end
        send_error = self._send(request.head, request.body)
        try:
            reply, reusable = await self.read_reply()
        except (OSError, TransportFault) as error:
            raise send_error or error from error
        return reply, reusable and send_error is None

    def _send(self, head: bytes, body: bytes) -> OSError | None:
        try:
            self._set_timeout()
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

    async def receive(self) -> bytes:
        self._set_timeout()
        return self.sock.recv(RECEIVED_BYTES)

    def _set_timeout(self) -> None:
        seconds = self._end - monotonic()
        if seconds <= 0:
            raise TimeoutError
        self.sock.settimeout(seconds)


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, as none of `Client` does."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a coroutine of the synchronous client has suspended")

"""HTTP exchanges on event loops, over plain non-blocking sockets.

A plain socket is not bound to a loop. Each loop nevertheless has a separate pool, which is closed when the loop ends,
so that trainers that call `asyncio.run` once per step leak no connections.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from ..replies import Reply
from .addresses import Address
from .connecting import connected_socket_async
from .http11 import Fault, ResponseReader
from .sockets import CHUNK_BYTES, IdleConnections, connection_fault, tls_context

__all__ = ["AsyncTransport"]

T = TypeVar("T")


class Connection:
    """One open connection without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.sock, CHUNK_BYTES)

    def close(self) -> None:
        self.sock.close()


class TlsConnection(Connection):
    """TLS over two memory buffers, whose encrypted bytes are sent and received on the socket."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls_context().wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self) -> None:
        await self._complete(self._tls.do_handshake)

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            chunk = view[:CHUNK_BYTES]
            view = view[await self._complete(lambda chunk=chunk: self._tls.write(chunk)) :]  # type: ignore[misc]

    async def receive(self) -> bytes:
        try:
            return await self._complete(lambda: self._tls.read(CHUNK_BYTES))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def _complete(self, operation: Callable[[], T]) -> T:
        """Repeat a TLS operation until it has received the bytes it needs."""
        while True:
            try:
                result = operation()
            except ssl.SSLWantReadError:
                await self._flush()
                received = await super().receive()
                if received:
                    self._incoming.write(received)
                else:
                    self._incoming.write_eof()
                continue
            await self._flush()
            return result

    async def _flush(self) -> None:
        pending = self._outgoing.read()
        if pending:
            await super().send(pending)


class LoopPool:
    """Idle connections of one event loop, and permits for its exchanges."""

    def __init__(self, max_connections: int) -> None:
        self.idle: IdleConnections[Connection] = IdleConnections()
        self.permits = asyncio.Semaphore(max_connections)
        self._guard: AsyncGenerator[None, None] | None = None

    async def close_with_loop(self) -> None:
        """Close the idle connections when the loop shuts down its asynchronous generators."""
        self._guard = closing(self.idle)
        await self._guard.__anext__()


async def closing(idle: IdleConnections[Connection]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        idle.close()


class AsyncTransport:
    """Connections of one client in one process, for every event loop that uses it."""

    def __init__(self, connect_timeout: float, max_connections: int) -> None:
        self._connect_timeout = connect_timeout
        self._max_connections = max_connections
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        self._lock = threading.Lock()

    async def exchange(self, address: Address, head: bytes, body: bytes, seconds: float) -> Reply:
        """Send one request and read its response; raise Fault. The connection is kept if it is reusable."""
        pool = await self._pool()
        async with pool.permits:
            connection = pool.idle.take(address)
            reused = connection is not None
            reader = ResponseReader()
            state = Attempt(connection)
            try:
                await asyncio.wait_for(self._send_and_receive(state, address, head, body, reader), seconds)
                if reader.reusable and state.connection is not None:
                    pool.idle.put(address, state.connection)
                    state.connection = None
                return reader.reply
            except asyncio.TimeoutError:
                raise connection_fault(TimeoutError(), state.connected, reused, reader.started) from None
            except (OSError, Fault) as error:
                fault = connection_fault(error, state.connected, reused, reader.started)
                if fault.stale:
                    pool.idle.drop(address)
                raise fault from error
            finally:
                if state.connection is not None:
                    state.connection.close()

    async def _send_and_receive(
        self, state: Attempt, address: Address, head: bytes, body: bytes, reader: ResponseReader
    ) -> None:
        if state.connection is None:
            try:
                await asyncio.wait_for(open_connection(state, address), self._connect_timeout)
            except asyncio.TimeoutError:
                raise TimeoutError from None
        state.connected = True
        connection = state.connection
        assert connection is not None
        send_error: OSError | None = None
        try:
            await connection.send(head + body)
        except OSError as error:
            send_error = error  # a service that rejects a body may reply before it has read all of it
        try:
            while not reader.done:
                reader.feed(await connection.receive())
        except (OSError, Fault) as error:
            raise send_error or error from error

    async def _pool(self) -> LoopPool:
        loop = asyncio.get_running_loop()
        with self._lock:
            pool = self._pools.get(loop)
            if pool is not None:
                return pool
            for ended in [known for known in self._pools if known.is_closed()]:
                self._pools.pop(ended).idle.close()
            pool = self._pools[loop] = LoopPool(self._max_connections)
        await pool.close_with_loop()
        return pool

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for pool in self._pools.values():
                pool.idle.close()

    def abandon(self) -> None:
        """Close a forked child's copies of its parent's connections, which stay open in the parent.

        The lock is not taken: another thread of the parent may have held it, and never releases it here.
        """
        for pool in self._pools.values():
            pool.idle.close()
        _inherited.append(self._pools)  # else the garbage collector would run their guards on the parent's loops

    def __del__(self) -> None:
        for pool in self._pools.values():
            pool.idle.close()


_inherited: list[object] = []


class Attempt:
    """State of one exchange; its connection is closed at the end unless it has returned to the pool."""

    def __init__(self, connection: Connection | None) -> None:
        self.connection = connection
        self.connected = connection is not None


async def open_connection(state: Attempt, address: Address) -> None:
    """Set `state.connection` before it is open, so that a cancelled attempt closes it."""
    if address.socket_path is not None:
        state.connection = Connection(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        state.connection.sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(state.connection.sock, address.socket_path)
        return
    state.connection = Connection(await connected_socket_async(address.host, address.port))
    state.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if address.tls:
        state.connection = connection = TlsConnection(state.connection.sock, address.host)
        await connection.handshake()

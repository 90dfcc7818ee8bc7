"""Exchanges on an event loop, over plain non-blocking sockets.

A socket belongs to no loop, so a connection neither dies with the loop that opened it in some surprising way nor holds
it alive. Each loop has a pool of its own all the same, which is emptied when the loop ends: trainers that call
`asyncio.run` once a step leave nothing behind.
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
from .sockets import RECEIVED, IdleConnections, connection_fault, tls_context

__all__ = ["AsyncTransport"]

T = TypeVar("T")


class Connection:
    """One open connection without TLS."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.sock, data)

    async def receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.sock, RECEIVED)

    def close(self) -> None:
        self.sock.close()


class TlsConnection(Connection):
    """TLS between two buffers in memory, whose encrypted ends go over the socket."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        super().__init__(sock)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls_context().wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def handshake(self) -> None:
        await self._drive(self._tls.do_handshake)

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            piece = view[:RECEIVED]
            view = view[await self._drive(lambda piece=piece: self._tls.write(piece)) :]  # type: ignore[misc]

    async def receive(self) -> bytes:
        try:
            return await self._drive(lambda: self._tls.read(RECEIVED))
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return b""

    async def _drive(self, step: Callable[[], T]) -> T:
        """Repeat a step of TLS until it has the bytes that it needs."""
        while True:
            try:
                result = step()
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
        waiting = self._outgoing.read()
        if waiting:
            await super().send(waiting)


class LoopPool:
    """Connections of one event loop, and the right to open more."""

    def __init__(self, max_connections: int) -> None:
        self.idle: IdleConnections[Connection] = IdleConnections()
        self.permits = asyncio.Semaphore(max_connections)
        self._guard: AsyncGenerator[None, None] | None = None

    async def close_with_loop(self) -> None:
        """Have the loop close the idle connections when it shuts down its asynchronous generators."""
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
        """Send one request and read its response; raises Fault. The connection is kept if it is clean afterwards."""
        pool = await self._pool()
        async with pool.permits:
            connection = pool.idle.take(address)
            reused = connection is not None
            reader = ResponseReader()
            state = Attempt(connection)
            try:
                await asyncio.wait_for(self._converse(state, address, head, body, reader), seconds)
                if reader.reusable and state.connection is not None:
                    pool.idle.put(address, state.connection)
                    state.connection = None
                return reader.reply
            except asyncio.TimeoutError:
                raise connection_fault(TimeoutError(), state.connected, reused, reader.begun) from None
            except (OSError, Fault) as error:
                fault = connection_fault(error, state.connected, reused, reader.begun)
                if fault.stale:
                    pool.idle.drop(address)
                raise fault from error
            finally:
                if state.connection is not None:
                    state.connection.close()

    async def _converse(
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
            send_error = error  # a service that refuses a body may have answered before it has read it all
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
        """Close what is idle."""
        with self._lock:
            for pool in self._pools.values():
                pool.idle.close()

    def abandon(self) -> None:
        """In a forked child: close the copies of the parent's connections, which stay open over there.

        Without the lock: another thread of the parent may have held it, and will not let go of it here.
        """
        for pool in self._pools.values():
            pool.idle.close()
        _inherited.append(self._pools)  # else their guards would call upon the parent's loops when they are collected

    def __del__(self) -> None:
        for pool in self._pools.values():
            pool.idle.close()


_inherited: list[object] = []


class Attempt:
    """How far one exchange has come; its connection is closed with it unless it has been put back."""

    def __init__(self, connection: Connection | None) -> None:
        self.connection = connection
        self.connected = connection is not None


async def open_connection(state: Attempt, address: Address) -> None:
    """Set `state.connection`, already while it is being opened: then a cancelled attempt closes it."""
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

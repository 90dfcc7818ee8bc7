"""HTTP exchanges on event loops, over the streams of asyncio."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from time import monotonic
from typing import cast

from ..errors import Unavailable
from ..results import HttpReply
from .addresses import Address
from .connecting import Target, connected_socket_async, resolved_async
from .http11 import (
    CHUNK_BYTES,
    CLOSED_IN_HANDSHAKE,
    MAX_BODY,
    Connection,
    HttpExchange,
    Pool,
    Transport,
    TransportFault,
    tls_context,
)

__all__ = ["AsyncTransport"]


class AsyncTransport(Transport):
    """Connections of one client in one process, for every event loop that uses it."""

    def __init__(self, connect_timeout: float, max_connections: int) -> None:
        super().__init__(connect_timeout)
        self._max_connections = max_connections
        self._loops: dict[asyncio.AbstractEventLoop, tuple[asyncio.Semaphore, AsyncGenerator[None, None]]] = {}
        self._lock = threading.Lock()

    async def exchange(self, request: HttpExchange, loop: asyncio.AbstractEventLoop | None = None) -> HttpReply:
        """Raise also Unavailable, if no connection is free until the deadline of the call."""
        loop = asyncio.get_running_loop()
        permits = await self._permits(loop)
        if permits.locked():
            try:
                await asyncio.wait_for(permits.acquire(), request.deadline - monotonic())
            except asyncio.TimeoutError:
                raise Unavailable("no reward: no connection was free within the deadline") from None
        else:
            await permits.acquire()
        try:
            return await super().exchange(request, loop)
        finally:
            permits.release()

    async def _connect(self, address: Address, seconds: float) -> Connection:
        end = monotonic() + seconds
        targets = await resolved_async(address, seconds)
        seconds = end - monotonic()
        return await asyncio.wait_for(connect(address, targets, seconds), seconds)

    async def _permits(self, loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
        """Return the permits for exchanges of this loop; the first time, make sure that its connections end with it."""
        with self._lock:
            if loop in self._loops:
                return self._loops[loop][0]
            for ended in [candidate for candidate in self._loops if candidate.is_closed()]:
                del self._loops[ended]
                self.pool.close(loop=ended)
            permits, guard = self._loops[loop] = asyncio.Semaphore(self._max_connections), closing(self.pool, loop)
        await guard.__anext__()
        return permits


async def closing(pool: Pool, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
    """Close idle connections when the loop ends its asynchronous generators: `asyncio.run` per step leaks none."""
    try:
        yield
    finally:
        pool.close(loop=loop)
        await asyncio.sleep(0)  # transports close their sockets in the next iteration of the loop


class StreamConnection(Connection):
    def __init__(self, sock: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(sock)
        self._reader = reader
        self._writer = writer
        self._transport = cast("asyncio.Transport", writer.transport)
        self._loop = asyncio.get_running_loop()
        self._is_late = False

    async def exchange(self, request: HttpExchange, end: float) -> tuple[HttpReply, bool]:
        body = request.body
        if self.reused:
            self._transport.resume_reading()
        timer = self._loop.call_later(end - monotonic(), self._expire)  # asyncio.wait_for would need a task
        self._writer.write(request.head + body[:CHUNK_BYTES])
        # A service that rejects a body may reply before it has read all of it.
        sending = self._loop.create_task(self._send(body)) if len(body) > CHUNK_BYTES else None
        try:
            reply, reusable = await self.read_reply()
            is_sent = self._transport.get_write_buffer_size() == 0 and (sending is None or sending.done())
        finally:
            timer.cancel()
            if sending is not None:
                sending.cancel()
        if reusable and is_sent and not self._transport.is_closing():
            self._transport.pause_reading()  # so that `is_idle` sees what arrives meanwhile
        return reply, reusable and is_sent

    async def _send(self, body: bytes) -> None:
        """Send the rest of a large body in pieces: the transport copies what it cannot send at once."""
        view = memoryview(body)
        with suppress(OSError):  # which the reader raises too
            for k in range(CHUNK_BYTES, len(body), CHUNK_BYTES):
                await self._writer.drain()
                self._writer.write(view[k : k + CHUNK_BYTES])

    async def receive(self) -> bytes:
        received = await self._reader.read(MAX_BODY)
        if self._is_late:
            raise TimeoutError
        return received

    def _expire(self) -> None:
        self._is_late = True
        self._transport.abort()  # which ends `receive`

    def is_idle(self) -> bool:
        return not self._transport.is_closing() and super().is_idle()

    def close(self) -> None:
        # Through its event loop, which may have ended or belong to another thread.
        try:
            if asyncio.get_running_loop() is self._loop:
                self._transport.abort()
                return
        except RuntimeError:  # no loop runs in this thread
            pass
        try:
            self._loop.call_soon_threadsafe(self._transport.abort)
        except RuntimeError:  # it has ended
            self.sock.close()


async def connect(address: Address, targets: Sequence[Target], seconds: float) -> StreamConnection:
    sock = await connected_socket_async(targets, seconds)
    tls, name = (tls_context(), address.host) if address.tls else (None, None)
    try:
        streams = await asyncio.open_connection(sock=sock, limit=CHUNK_BYTES, ssl=tls, server_hostname=name)
        return StreamConnection(sock, *streams)
    except ConnectionError as error:
        if address.tls:
            raise TransportFault(CLOSED_IN_HANDSHAKE) from error
        raise

"""HTTP exchanges on event loops, over the streams of asyncio."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from collections.abc import AsyncGenerator
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from time import monotonic
from typing import IO

from ..errors import Unavailable
from ..replies import Reply
from .addresses import Address
from .connecting import connected_socket_async
from .http11 import CHUNK_BYTES, MAX_BODY, MAX_HEAD, Exchange, Fault, check_length, closed_early, read_head, reply_of
from .pool import CLOSED_IN_HANDSHAKE, Pool, connection_fault, is_still_idle, tls_context

__all__ = ["AsyncTransport"]

INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?\r\n", re.DOTALL)


class AsyncTransport:
    """Connections of one client in one process, for every event loop that uses it."""

    def __init__(self, connect_timeout: float, max_connections: int) -> None:
        self._connect_timeout = connect_timeout
        self._max_connections = max_connections
        self._loops: dict[asyncio.AbstractEventLoop, LoopState] = {}
        self._lock = threading.Lock()
        self.pool: Pool[Connection] = Pool()

    async def exchange(self, request: Exchange) -> Reply:
        """Send one request and read its response; raise Fault. The connection is kept if it is reusable.

        Raise Unavailable if no connection is free until the deadline of the call.
        """
        loop = asyncio.get_running_loop()
        permits = (await self._state(loop)).permits
        if permits.locked():
            try:
                await asyncio.wait_for(permits.acquire(), request.deadline - monotonic())
            except asyncio.TimeoutError:
                raise Unavailable("no reward: no connection was free within the deadline") from None
        else:
            await permits.acquire()
        try:
            return await self._exchange(request, loop)
        finally:
            permits.release()

    async def _exchange(self, request: Exchange, loop: asyncio.AbstractEventLoop) -> Reply:
        address, end = request.address, monotonic() + request.seconds
        connection = self.pool.take(address, loop)
        reusable = False
        try:
            if connection is None:
                timeout = min(request.seconds, self._connect_timeout)
                connection = await asyncio.wait_for(connect(address, timeout), timeout)
            exchange = connection.exchange(request.head, request.body)
            reply, reusable = await asyncio.wait_for(exchange, end - monotonic())
            if reusable:
                self.pool.put(connection, address, loop)
            return reply
        except (OSError, asyncio.TimeoutError, HTTPException, Fault) as error:
            fault = connection_fault(error, connection)
            if fault.stale:
                self.pool.close(address, loop)
            raise fault from error
        finally:
            if connection is not None and not reusable:
                connection.close()

    async def _state(self, loop: asyncio.AbstractEventLoop) -> LoopState:
        with self._lock:
            state = self._loops.get(loop)
            if state is not None:
                return state
            for ended in [known for known in self._loops if known.is_closed()]:
                del self._loops[ended]
                self.pool.close(loop=ended)
            state = self._loops[loop] = LoopState(self._max_connections)
        await state.close_at_end(self.pool, loop)
        return state


class LoopState:
    """Permits for the exchanges of one event loop, and what closes its connections when it ends.

    Trainers that call `asyncio.run` once per step thereby leak no connections.
    """

    def __init__(self, max_connections: int) -> None:
        self.permits = asyncio.Semaphore(max_connections)
        self._guard: AsyncGenerator[None, None] | None = None

    async def close_at_end(self, pool: Pool[Connection], loop: asyncio.AbstractEventLoop) -> None:
        """Close the idle connections when the loop shuts down its asynchronous generators."""
        self._guard = closing(pool, loop)
        await self._guard.__anext__()


async def closing(pool: Pool[Connection], loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        pool.close(loop=loop)
        await asyncio.sleep(0)  # transports close their sockets in the next iteration of the loop


class Connection:
    """One open connection of an event loop."""

    def __init__(self, sock: socket.socket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sock = sock
        self.reused = self.started = False
        self._reader = reader
        self._transport = writer.transport
        self._writer = writer
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    async def exchange(self, head: bytes, body: bytes) -> tuple[Reply, bool]:
        """Return the reply to a request, and whether the connection is reusable; raise Fault or its cause.

        It does not wait until all is sent: a service that rejects a body may reply before it has read all of it.
        """
        if self.reused:
            self._transport.resume_reading()
        for part in (head + body,) if len(body) < CHUNK_BYTES else (head, body):
            self._writer.write(part)
        response = await self._read_head()
        whole = await self._read_body(response)
        reusable = not (response.will_close or self._received or self._transport.get_write_buffer_size())
        if reusable and not self._transport.is_closing():
            self._transport.pause_reading()  # so that `is_idle` sees what arrives meanwhile
        return reply_of(response, whole), reusable

    async def _read_head(self) -> HTTPResponse:
        head = await self._read_until(b"\r\n\r\n")
        while head.startswith(INTERIM):  # the final response follows
            head = await self._read_until(b"\r\n\r\n")
        return read_head(Head(head))

    async def _read_body(self, response: HTTPResponse) -> bytes:
        if response.length is not None:
            return await self._read_exactly(response.length)
        body = bytearray()
        if not response.chunked:
            while not self._reader.at_eof():
                check_length(len(self._received))
                self._received += await self._reader.read(CHUNK_BYTES)
            check_length(len(self._received))
            return self._take(len(self._received))
        while True:
            size = CHUNK_SIZE.fullmatch(await self._read_until(b"\r\n"))
            if size is None:
                raise Fault("the reply has an incomplete or malformed chunk")
            length = int(size[1], 16)
            if not length:
                break
            check_length(len(body) + length)
            body += await self._read_exactly(length)
            if await self._read_exactly(2) != b"\r\n":
                raise Fault("a chunk of the reply is longer than announced")
        while await self._read_until(b"\r\n") != b"\r\n":
            pass  # trailers
        return bytes(body)

    async def _read_until(self, end: bytes) -> bytes:
        while (pos := self._received.find(end)) < 0:
            if len(self._received) > MAX_HEAD:
                raise Fault(f"the head of the reply exceeds {MAX_HEAD} bytes")
            await self._receive()
        return self._take(pos + len(end))

    async def _read_exactly(self, length: int) -> bytes:
        while len(self._received) < length:
            await self._receive()
        return self._take(length)

    async def _receive(self) -> None:
        received = await self._reader.read(MAX_BODY)  # all that has arrived, so that bytes after a reply are noticed
        if not received:
            raise closed_early(self._received or (b"head" if self.started else b""))
        self.started = True
        self._received += received

    def _take(self, length: int) -> bytes:
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    def is_idle(self) -> bool:
        """Return whether it is open and has received nothing since its last exchange."""
        return not self._transport.is_closing() and is_still_idle(self.sock)

    def close(self) -> None:
        """Close it through its event loop, which may have ended or be that of another thread."""
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


async def connect(address: Address, seconds: float) -> Connection:
    """Open a connection; raise OSError or TimeoutError."""
    sock = await connected_socket_async(address, seconds)
    tls = {"ssl": tls_context(), "server_hostname": address.host} if address.tls else {}
    opening = asyncio.open_connection if address.socket_path is None else asyncio.open_unix_connection
    try:
        return Connection(sock, *await opening(sock=sock, limit=CHUNK_BYTES, **tls))  # type: ignore[operator]
    except ConnectionError as error:
        if address.tls:
            raise Fault(CLOSED_IN_HANDSHAKE) from error
        raise


class Head:
    """The bytes of a head, as a socket that `http.client` reads."""

    def __init__(self, head: bytes) -> None:
        self._head = head

    def makefile(self, _mode: str, /) -> IO[bytes]:
        return BytesIO(self._head)

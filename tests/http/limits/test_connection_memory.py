"""Memory of connections: what follows a head is not kept, and a closed connection keeps nothing."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import sys
import weakref
from contextlib import ExitStack, suppress

import pytest

from tests.http.process.watching import resident
from tests.http.raw_connection import BODY, RawConnection, chunked, head, open_connection

pytestmark = pytest.mark.attack

PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n"
TRAILERS = PROBE + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n" + b"T: x\r\n" * 9_000
SHORT_HEADERS = PROBE + b"T:\r\n" * 15_000
LONG_HEAD = PROBE + b"X-Long: " + b"x" * 60_000 + b"\r\n\r\n"


def growth(server, connections: int) -> int:
    """Return the growth of the server's memory per connection."""
    return max(0, resident(server.process.pid) - server.idle) // connections


@pytest.fixture
def measured(server):
    """Return a server that has sent long heads before, with its memory."""
    if sys.platform != "linux":
        pytest.skip("the size of a process is read from /proc")
    for data in (LONG_HEAD, LONG_HEAD, LONG_HEAD):
        exchange(server, data).close()
    server.idle = resident(server.process.pid)
    return server


def exchange(server, data: bytes) -> RawConnection:
    """Send these bytes on a new connection, and return it once it has a reply."""
    connection = RawConnection(server.url)
    connection.send(data)
    connection.reply()
    return connection


@pytest.mark.parametrize("data", [TRAILERS, SHORT_HEADERS], ids=["trailers", "headers"])
def test_fields_of_a_few_bytes(measured, data):
    """In 0.3.0, each of these connections kept 1 to 2 MiB."""
    with ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(exchange(measured, data))
        assert growth(measured, 150) < 100_000
    assert growth(measured, 150) < 100_000


def test_a_reset_connection_keeps_no_memory(measured):
    """In 0.3.0, each kept its head until `keep_alive_seconds` had passed."""
    for _ in range(1_000):
        with exchange(measured, LONG_HEAD) as connection:
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    exchange(measured, LONG_HEAD).close()
    assert growth(measured, 1_000) < 16_000


def test_trailers_are_no_headers(server):
    """A run, an encoding or an id after the body, in one piece with the head, changes nothing."""
    trailer = b"Content-Encoding: gzip\r\nX-Request-ID: of-a-trailer\r\nX-Request-Timeout: none\r\n"
    with RawConnection(server.url) as connection:
        connection.send(head("Transfer-Encoding: chunked") + chunked([BODY], trailer=trailer))
        reply = connection.reply()
    assert reply.status == 200
    assert reply.headers["x-request-id"] != "of-a-trailer"


async def wait(_scope, _receive, _send) -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(60)


async def echo(_scope, _receive, send) -> None:
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


def test_headers_of_pipelined_requests_are_counted_together():
    async def pipelined(headers: int) -> list[str]:
        rejected: list[str] = []
        protocol, ours = await open_connection(wait, rejected)
        with ours:
            protocol.data_received((PROBE + b"T: x\r\n" * headers + b"\r\n") * 30)
            protocol.transport.abort()
        return rejected

    assert asyncio.run(pipelined(20)) == []
    assert asyncio.run(pipelined(100)) == ["pipelined"]


@pytest.mark.parametrize("app", [echo, wait])
@pytest.mark.parametrize("error", [None, ConnectionResetError()])
@pytest.mark.parametrize("data", [PROBE + b"\r\n", PROBE, (PROBE + b"\r\n") * 5, TRAILERS])
def test_a_closed_connection_is_freed_without_the_garbage_collector(app, error, data):
    async def lose() -> weakref.ref:
        protocol, ours = await open_connection(app, [])
        with ours:
            protocol.data_received(data)
            await asyncio.sleep(0.01)
            protocol.connection_lost(error)
            protocol.transport.abort()
            await asyncio.sleep(0.01)
            for task in list(protocol.tasks):
                task.cancel()
            await asyncio.sleep(0.01)
            return weakref.ref(protocol)

    gc.disable()
    try:
        assert asyncio.run(lose())() is None
    finally:
        gc.enable()

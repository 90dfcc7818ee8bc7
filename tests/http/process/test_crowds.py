"""Many connections that send nothing, little, or a reset: probes and scoring continue beside them."""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from tests.http.raw_connection import RawConnection, head, post
from tests.http.samples import REWARDS
from tests.servers import LiveServer

pytestmark = pytest.mark.attack

PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
ROUNDS = 40
SLOWEST_SECONDS = 2.0
"""Wide: usually some milliseconds."""


def slowest(server: LiveServer) -> float:
    """Send probes and requests on new connections; return the longest time to a reply, in seconds."""
    most = 0.0
    for k in range(ROUNDS):
        started = time.monotonic()
        with RawConnection(server.url) as connection:
            connection.send(PROBE if k % 2 else post())
            reply = connection.reply()
        assert reply.status == 200
        assert k % 2 or reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        most = max(most, time.monotonic() - started)
    return most


@pytest.mark.parametrize("start", [b"", b"POST /v1/score HTTP/1.1\r\nX-Slow: ", head("Content-Length: 60000")])
def test_hundreds_of_connections_that_wait(server, start):
    """Idle ones, ones whose head does not end, and ones whose body does not come."""
    alone = slowest(server)
    with ExitStack() as stack:
        crowd = [stack.enter_context(RawConnection(server.url)) for _ in range(400)]
        for connection in crowd:
            connection.send(start)
        assert slowest(server) < max(SLOWEST_SECONDS, 20 * alone)
    assert slowest(server) < max(SLOWEST_SECONDS, 20 * alone)


def test_thousands_of_resets(server):
    """Connections that send half a request and reset, from two threads, as fast as they can."""
    alone = slowest(server)
    address = urlsplit(server.url)

    def reset() -> None:
        for k in range(1000):
            with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=30) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                connection.sendall(post()[: 1 + 97 * k % len(post())])

    threads = [threading.Thread(target=reset) for _ in range(2)]
    for thread in threads:
        thread.start()
    longest = 0.0
    while any(thread.is_alive() for thread in threads):
        longest = max(longest, slowest(server))
    assert longest < max(SLOWEST_SECONDS, 20 * alone)

"""Refusals reach clients that are still sending their body, even if the reply closes the connection."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from tests.http.process.watching import comes_to
from tests.http.raw_connection import RawConnection, head
from tests.servers import LiveServer, launched

LIMIT = 16_000_000
TIMES = 8
JSON = {"Content-Type": "application/json", "Authorization": "Bearer key"}
REFUSALS = {
    401: ("/v1/score", {**JSON, "Authorization": "Bearer wrong"}, 15_000_000),
    404: ("/nowhere", JSON, 15_000_000),
    413: ("/v1/score", JSON, LIMIT + 1),
    415: ("/v1/score", {**JSON, "Content-Type": "text/plain"}, 15_000_000),
    422: ("/v1/score?nonsense=1", JSON, 15_000_000),
    429: ("/v1/score", JSON, 15_000_000),
}
"""Statuses, each with a request that gets it before its body is read."""


def send(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """Send Connection: close, and read the reply only after sending all of the body; return the status."""
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers), timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def strict() -> Iterator[LiveServer]:
    """Start a server with a key and without a queue."""
    flags = ("--max-body-bytes", str(LIMIT), "--max-work-bytes", "1000000", "--max-queued-bytes", "0")
    with launched(*flags, "--drain-seconds", "0", environ={"ASSAY_API_KEYS": "key"}) as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


@pytest.mark.parametrize("status", REFUSALS)
def test_refusals_reach_clients_that_are_still_sending(strict, status):
    path, headers, length = REFUSALS[status]
    with RawConnection(strict.url) as other:
        if status == 429:
            other.send(head("Content-Length: 2000000", "Authorization: Bearer key") + bytes(1_500_000))
            assert comes_to(strict, work_bytes=1_000_000)
        assert {send(strict.url, path, headers, bytes(length)) for _ in range(TIMES)} == {status}


def test_lingering_connections_are_closed():
    """A client continues to send after it was refused, slowly and for ever."""
    with launched("--body-seconds", "1", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(head("Content-Length: 9000000", "Connection: close", path="/nowhere"))
            assert connection.reply().status == 404
            assert connection.send_until_closed(b" ", 1_000, pause=0.05) < 200

"""Refusals reach clients that are still sending their body, even if the reply closes the connection."""

from __future__ import annotations

import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.http.limits.posting import connected
from tests.http.process.watching import comes_to
from tests.http.raw_connection import RawConnection, head
from tests.servers import LiveServer, ready

LIMIT = 16_000_000
TIMES = 20
JSON = {"Content-Type": "application/json", "Authorization": "Bearer key"}
REFUSALS = {
    401: ("/v1/score", {**JSON, "Authorization": "Bearer wrong"}, 15_000_000),
    404: ("/nowhere", JSON, 15_000_000),
    413: ("/v1/score", JSON, LIMIT + 1),
    415: ("/v1/score", {**JSON, "Content-Type": "text/plain"}, 15_000_000),
    422: ("/v1/score?nonsense=1", JSON, 15_000_000),
    429: ("/v1/score", JSON, 15_000_000),
    "413 again": ("/v1/score", JSON, 3 * LIMIT),
}
"""Statuses, each with a request that gets it before its body is read."""

Post = Callable[[str, str, dict[str, str], bytes], int]


def by_urllib(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """Send Connection: close, and read the reply only after sending all of the body."""
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers), timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def by_http_client(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    with connected(base) as connection:
        return connection.send("POST", path, body, headers)[0]


def by_http_1_0(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    lines = [f"POST {path} HTTP/1.0", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    with RawConnection(base) as connection:
        connection.send("\r\n".join((*lines, "", "")).encode() + body)
        return connection.reply().status


@pytest.fixture(scope="module")
def strict() -> Iterator[LiveServer]:
    """Start a server with a key and without a queue."""
    flags = ("--max-body-bytes", str(LIMIT), "--max-work-bytes", "1000000", "--max-queued-bytes", "0")
    with ready(*flags, "--drain-seconds", "600", environ={"ASSAY_API_KEYS": "key"}) as server:
        yield server
        assert "Traceback" not in server.log


def refused(server: LiveServer, case: int | str, by: Post, times: int) -> list[int | str]:
    """Send a request repeatedly; return the statuses or errors."""
    path, headers, length = REFUSALS[case]
    body = bytes(length)
    answers: list[int | str] = []
    with RawConnection(server.url) as other:
        if case == 429:
            other.send(head("Content-Length: 2000000", "Authorization: Bearer key") + bytes(1_500_000))
            assert comes_to(server, work_bytes=1_000_000)
        for _ in range(times):
            try:
                answers.append(by(server.url, path, headers, body))
            except OSError as error:
                answers.append(repr(error))
    return answers


@pytest.mark.parametrize("by", [by_urllib, by_http_client, by_http_1_0])
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_reach_clients_that_are_still_sending(strict, case, by):
    status = int(str(case).split()[0])
    assert refused(strict, case, by, TIMES) == [status] * TIMES


def test_refusals_reach_them_while_the_server_drains(strict):
    """The last test of this server: from now on every reply has Connection: close."""
    strict.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    for case in (401, 404, 413, 415, 422):
        assert refused(strict, case, by_http_client, TIMES) == [case] * TIMES


def test_lingering_connections_are_closed():
    """A client continues to send after it was refused, slowly and for ever."""
    with ready("--body-seconds", "1") as server, RawConnection(server.url) as connection:
        connection.send(head("Content-Length: 9000000", "Connection: close", path="/nowhere"))
        assert connection.reply().status == 404
        assert connection.send_until_closed(b" ", 1_000, pause=0.05) < 200

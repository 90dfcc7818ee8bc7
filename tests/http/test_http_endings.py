"""How connections end: replies reach clients that are still sending, and nobody keeps what others need."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from live_server import LiveServer, launched
from raw_connection import BODY, RawConnection, head, post
from samples import REQUEST, REWARDS

LARGE = BODY[:-1] + b" " * 90_000 + b"}"


def metric(server: LiveServer, name: str) -> float:
    with server.client() as client:
        text = client.get("/metrics").text
    return float(text.partition(f"\n{name} ")[2].split()[0])


def comes_to(server: LiveServer, seconds: float = 10, **wanted: float) -> bool:
    """Whether metrics reach these values in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if all(metric(server, f"assay_{name}") == value for name, value in wanted.items()):
            return True
        time.sleep(0.05)
    return False


# Clients that close their sending side, or all


@pytest.fixture(scope="module")
def narrow() -> Iterator[LiveServer]:
    """A server with room for one batch, whose others wait."""
    with launched("--max-work-bytes", "100000", "--inline-bytes", "1000", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


def final_reply(connection: RawConnection):
    """The reply after those that only say that there will be one."""
    while (reply := connection.reply()).status == 100:
        pass
    return reply


@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_half_closed_client_gets_the_reply_to_its_batch(narrow, version):
    with RawConnection(narrow.url) as connection:
        connection.send(post(LARGE).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1))
        connection.socket.shutdown(socket.SHUT_WR)
        reply = final_reply(connection)
        assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        assert connection.is_closed()


def test_half_closed_clients_keep_their_place_in_the_queue(narrow):
    with RawConnection(narrow.url) as first:
        first.send(head("Content-Length: 100000"))
        assert comes_to(narrow, work_bytes=100_000)
        with RawConnection(narrow.url) as waiting:
            waiting.send(post(LARGE))
            waiting.socket.shutdown(socket.SHUT_WR)
            assert comes_to(narrow, queued_requests=1)
            time.sleep(2.5)  # the server looks at it once a second
            assert metric(narrow, "assay_queued_requests") == 1
            first.close()
            assert final_reply(waiting).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert comes_to(narrow, work_bytes=0)


def test_truncated_and_half_closed_connections_leave_nothing_behind(narrow):
    """Of a request that is cut short nothing is kept."""
    for end in (30, len(post()) - 5, len(post())):
        with RawConnection(narrow.url) as connection:
            connection.send(post()[:end])
            connection.socket.shutdown(socket.SHUT_WR)
            with suppress(EOFError):
                assert final_reply(connection).status == 200
            assert connection.is_closed()


def test_a_client_that_leaves_the_queue_frees_its_place(narrow):
    """Although nobody reads from it. (One whose body is larger than the sockets' buffers is noticed at its turn.)"""
    with RawConnection(narrow.url) as first:
        first.send(head("Content-Length: 100000"))  # holds the whole budget, and lets everyone wait
        assert comes_to(narrow, queued_requests=0, work_bytes=100_000)
        waiting = [RawConnection(narrow.url) for _ in range(5)]
        for connection in waiting:
            connection.send(post(LARGE))
        assert comes_to(narrow, queued_requests=5, work_bytes=100_000)
        for connection in waiting[:-1]:
            connection.close()
        assert comes_to(narrow, queued_requests=1, work_bytes=100_000)
    assert final_reply(waiting[-1]).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert comes_to(narrow, queued_requests=0, work_bytes=0)
    waiting[-1].close()


def test_a_client_that_leaves_while_it_is_served_is_noticed():
    """Its batch is in a thread, which does not read from it."""
    stuck = "import time; from service.executor import Workers as W; s = W._submit\n"
    stuck += "W._submit = lambda self, job, *rest: s(self, lambda: time.sleep(60), *rest)"
    with launched("--drain-seconds", "0", "--inline-bytes", "1000", before=stuck) as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(post(LARGE))
            assert comes_to(server, batches_unfinished=1)
        assert comes_to(server, client_disconnects_total=1)


# Replies that nobody reads


BODY_SECONDS = 3.0


@pytest.fixture(scope="module")
def hurried() -> Iterator[LiveServer]:
    """A server that waits three seconds for a reply to be taken."""
    with launched("--body-seconds", str(BODY_SECONDS), "--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


def narrow_connection(server: LiveServer) -> socket.socket:
    """A connection whose client has hardly any room for a reply."""
    address = urlsplit(server.url)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(30)
    connection.connect((address.hostname, address.port))
    return connection


@pytest.mark.parametrize("pause", [None, 0.2], ids=["nothing", "a byte now and then"])
def test_a_reply_that_is_not_read_holds_its_permit_for_a_while(hurried, pause):
    """Some 6 MB of reply: what the kernel does not take is memory of the service, and so it stays counted."""
    many = json.dumps({**REQUEST, "responses": ["nothing"] * 65_000, "include": ["components"]}).encode()
    before = metric(hurried, 'assay_rejections_total{reason="too_slow"}')
    assert metric(hurried, "assay_work_bytes") == 0
    with closing(narrow_connection(hurried)) as connection:
        connection.sendall(post(many))
        assert connection.recv(12) == b"HTTP/1.1 200"  # it is answered
        started = time.monotonic()
        held = []
        while time.monotonic() - started < BODY_SECONDS - 1:
            held.append(metric(hurried, "assay_work_bytes"))
            if pause is not None:
                assert connection.recv(1)
            time.sleep(pause or 0.2)
        assert set(held) == {float(len(many))}
        assert comes_to(hurried, work_bytes=0)
        assert time.monotonic() - started > BODY_SECONDS - 1
    assert metric(hurried, 'assay_rejections_total{reason="too_slow"}') == before + 1


def test_a_reply_that_is_read_in_time_is_whole(hurried):
    many = json.dumps({**REQUEST, "responses": ["nothing"] * 65_000, "include": ["components"]}).encode()
    with closing(narrow_connection(hurried)) as connection:
        connection.sendall(post(many, "Connection: close"))
        received = b""
        time.sleep(0.5 * BODY_SECONDS)
        while piece := connection.recv(1 << 20):
            received += piece
    found = json.loads(received.partition(b"\r\n\r\n")[2])
    assert found["rewards"] == [0.0] * 65_000
    assert comes_to(hurried, work_bytes=0)


def test_a_client_that_asks_and_never_reads_is_cut(hurried):
    """Ever more replies to a client that reads none of them: the connection is cut, not filled."""
    with RawConnection(hurried.url) as connection:
        connection.socket.settimeout(1)
        request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        end = time.monotonic() + 30
        cut = False
        while not cut and time.monotonic() < end:
            try:
                connection.send(request)
            except TimeoutError:
                continue
            except OSError:
                cut = True
    assert cut


# Refusals of requests that are still on their way


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
"""Status, and the request that gets it before its body is read."""

Post = Callable[[str, str, dict[str, str], bytes], int]


def by_urllib(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    """Says Connection: close, and looks for a reply once all of the body is sent."""
    try:
        with urllib.request.urlopen(urllib.request.Request(base + path, body, headers), timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def by_http_client(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    connection = HTTPConnection(urlsplit(base).netloc, timeout=30)
    with closing(connection):
        connection.request("POST", path, body, headers)
        return connection.getresponse().status


def by_http_1_0(base: str, path: str, headers: dict[str, str], body: bytes) -> int:
    lines = [f"POST {path} HTTP/1.0", f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    with RawConnection(base) as connection:
        connection.send("\r\n".join((*lines, "", "")).encode() + body)
        return connection.reply().status


@pytest.fixture(scope="module")
def strict() -> Iterator[LiveServer]:
    """A server with a key, and with no queue."""
    flags = ("--max-body-bytes", str(LIMIT), "--max-work-bytes", "1000000", "--max-queued-bytes", "0")
    with launched(*flags, "--drain-seconds", "600", environ={"ASSAY_API_KEYS": "key"}) as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


def refused(server: LiveServer, case: int | str, by: Post, times: int) -> list[int | str]:
    """What a client gets that sends this request over and over."""
    path, headers, length = REFUSALS[case]
    body = bytes(length)
    found: list[int | str] = []
    with RawConnection(server.url) as other:
        if case == 429:
            other.send(head("Content-Length: 1000000", "Authorization: Bearer key"))
            assert comes_to(server, work_bytes=1_000_000)
        for _ in range(times):
            try:
                found.append(by(server.url, path, headers, body))
            except OSError as error:
                found.append(repr(error))
    return found


@pytest.mark.parametrize("by", [by_urllib, by_http_client, by_http_1_0])
@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_reach_clients_that_are_still_sending(strict, case, by):
    status = int(str(case).split()[0])
    assert refused(strict, case, by, TIMES) == [status] * TIMES


def test_refusals_reach_them_while_the_server_drains(strict):
    """The last test of this server: from now on every reply says Connection: close."""
    strict.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    for case in (401, 404, 413, 415, 422):
        assert refused(strict, case, by_http_client, TIMES) == [case] * TIMES


def test_what_lingers_is_bounded_in_time():
    """A client that goes on sending after it was refused, slowly and for ever."""
    with launched("--body-seconds", "1", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(head("Content-Length: 9000000", "Connection: close", path="/nowhere"))
            assert connection.reply().status == 404
            assert connection.send_until_closed(b" ", 1_000, pause=0.05) < 200


# More connections than there may be


def test_too_many_connections_are_told_so():
    """A server with few descriptors refuses what it cannot serve, says why in its log, and recovers."""
    with launched("--drain-seconds", "0", descriptors=64) as server:
        server.wait_until_ready()
        connections = [RawConnection(server.url, timeout=5) for _ in range(200)]
        time.sleep(0.5)
        refusals = 0
        for connection in connections:
            connection.socket.setblocking(False)
            with suppress(OSError):
                refusals += connection.socket.recv(12) == b"HTTP/1.1 429"
            connection.close()
        assert refusals
        end = time.monotonic() + 10
        while True:
            with RawConnection(server.url) as connection, suppress(OSError, EOFError):
                connection.send(post())
                if connection.reply().status == 200:
                    break
            assert time.monotonic() < end
            time.sleep(0.1)
        assert metric(server, 'assay_rejections_total{reason="descriptors"}') >= refusals
        assert server.log.count("file descriptors") == 1
        assert "Traceback" not in server.log

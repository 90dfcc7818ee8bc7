"""Closing of connections: half-closed clients get their replies, and no client holds resources forever."""

from __future__ import annotations

import gzip
import json
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.http.process.watching import comes_to, in_time, metric, rejections
from tests.http.raw_connection import BODY, RawConnection, head, post
from tests.http.samples import REQUEST, REWARDS
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

LARGE = BODY[:-1] + b" " * 90_000 + b"}"
MANY = json.dumps({**REQUEST, "responses": ["nothing"] * 65_000, "include": ["components", "advantages"]}).encode()


# Clients that close their sending side, or all


HOLDING = """
import os, time
from assay.service.http.request.intake import WorkerThreads
def held(job):
    while os.path.exists({path!r}):
        time.sleep(0.01)
    return job()
submit = WorkerThreads._submit
WorkerThreads._submit = lambda self, job, *others: submit(self, lambda: held(job), *others)
"""
"""Lets batches wait in their threads while a file exists."""


@pytest.fixture(scope="module")
def hold(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a file; while it exists, `narrow` scores no batch."""
    return tmp_path_factory.mktemp("narrow") / "hold"


@pytest.fixture(scope="module")
def narrow(hold: Path) -> Iterator[LiveServer]:
    """Yield a server with room for one batch; others wait."""
    flags = ("--max-work-bytes", "100000", "--inline-bytes", "1000", "--drain-seconds", "0")
    with launched(*flags, before=HOLDING.format(path=str(hold))) as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


@contextmanager
def occupied(server: LiveServer, hold: Path) -> Iterator[None]:
    """Fill the budget with a batch that is not scored until the end."""
    hold.touch()
    try:
        with RawConnection(server.url) as first:
            first.send(post(LARGE))
            assert comes_to(server, work_bytes=len(LARGE), queued_requests=0)
            yield
            hold.unlink()
            assert final_reply(first).status == 200
    finally:
        hold.unlink(missing_ok=True)


def final_reply(connection: RawConnection):
    """Return the final reply, after interim ones."""
    while (reply := connection.reply()).status == 100:
        pass
    return reply


def test_half_closed_clients_stay_in_the_queue(narrow, hold):
    with RawConnection(narrow.url) as waiting:
        with occupied(narrow, hold):
            waiting.send(post(LARGE))
            waiting.socket.shutdown(socket.SHUT_WR)
            assert comes_to(narrow, queued_requests=1)
            time.sleep(2.5)  # the server looks at it once a second
            assert metric(narrow, "assay_queued_requests") == 1
        assert final_reply(waiting).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert comes_to(narrow, work_bytes=0)


def test_a_client_that_leaves_the_queue_frees_its_slot(narrow, hold):
    """Even without reading from it. (With a body larger than the socket buffers, it is noticed at its turn.)"""
    with occupied(narrow, hold):
        waiting = [RawConnection(narrow.url) for _ in range(5)]
        for connection in waiting:
            connection.send(post(LARGE))
        assert comes_to(narrow, queued_requests=5, work_bytes=len(LARGE))
        for connection in waiting[:-1]:
            connection.close()
        assert comes_to(narrow, queued_requests=1, work_bytes=len(LARGE))
    assert final_reply(waiting[-1]).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert comes_to(narrow, queued_requests=0, work_bytes=0)
    waiting[-1].close()


def test_clients_that_hang_up_after_their_body_are_not_counted_as_served(narrow, hold):
    """Clients send a whole batch and disconnect at once: neither their requests nor their rewards count as served.

    The first one is noticed while its batch is in a thread, which does not read from the connection.
    """
    with RawConnection(narrow.url) as connection:
        connection.send(post(LARGE))
        assert final_reply(connection).status == 200
    assert comes_to(narrow, work_bytes=0)
    once = served(narrow)
    assert min(once) > 0
    gone = metric(narrow, "assay_client_disconnects_total")
    for noticed in (True, False):
        hold.touch()  # the batch, which takes only milliseconds, is not ready before the client has gone
        gone += 1
        with RawConnection(narrow.url) as connection:
            connection.send(post(LARGE))
            assert comes_to(narrow, work_bytes=len(LARGE), batches_unfinished=1)
        assert not noticed or comes_to(narrow, client_disconnects_total=gone)
        hold.unlink()
        assert comes_to(narrow, work_bytes=0, client_disconnects_total=gone)
    assert served(narrow) == once


def test_a_short_request_of_a_client_that_has_gone_is_not_counted_as_served():
    """The event loop is busy while a client sends its request and disconnects."""
    busy = "import time; from assay.service.http.request.admission import LoopBudget\ntake = LoopBudget.take\n"
    busy += "async def late(self, times):\n    time.sleep(0.2); times.queue += 0.2; await take(self, times)\n"
    busy += "LoopBudget.take = late"
    with launched("--drain-seconds", "0", before=busy) as server:
        server.wait_until_ready()
        with RawConnection(server.url) as connection:
            connection.send(post())
            assert connection.reply().status == 200
        once = served(server)
        with RawConnection(server.url) as connection:
            connection.send(post())
        assert comes_to(server, client_disconnects_total=1)
        assert served(server) == once


def served(server: LiveServer) -> list[float]:
    """Return the requests of /v1/score that were answered with 200, and the number of all rewards."""
    names = (
        'assay_request_duration_seconds_count{code="200",route="/v1/score"}',
        'assay_reward_count{run="unnamed",task="score"}',
    )
    return [metric(server, name) for name in names]


# Replies that nobody reads


@pytest.mark.parametrize("pause", [None, 0.2], ids=["nothing", "a byte now and then"])
def test_an_unread_reply_holds_its_permit_until_the_timeout(pause):
    """What the kernel does not buffer, of a reply of some MB to a small receive buffer, is counted."""
    with launched("--body-seconds", "3", "--drain-seconds", "0") as server, closing(socket.socket()) as connection:
        server.wait_until_ready()
        address = urlsplit(server.url)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((address.hostname, address.port))
        connection.sendall(post(MANY, "Connection: close"))
        assert connection.recv(12) == b"HTTP/1.1 200"
        started = time.monotonic()
        held = []
        while time.monotonic() - started < 2:
            held.append(metric(server, "assay_work_bytes"))
            if pause is not None:
                assert connection.recv(1)
            time.sleep(pause or 0.2)
        assert set(held) == {float(len(MANY))}
        assert comes_to(server, work_bytes=0)
        assert time.monotonic() - started > 2
        assert rejections(server, "too_slow") == 1
        assert "Traceback" not in server.log


WORK_BYTES = 4 << 20
REPLIED_AT_LENGTH = gzip.compress(MANY)
"""A short request with a reply of five megabytes, more than the socket buffers."""


def test_unread_replies_delay_further_ones_and_their_clients_are_disconnected():
    """Without a bound, 40 of these clients would hold 200 MB."""
    flags = ("--max-work-bytes", str(WORK_BYTES), "--body-seconds", "20", "--drain-seconds", "0")
    with launched(*flags) as server, ExitStack() as stack:
        server.wait_until_ready()
        for _ in range(40):
            connection = stack.enter_context(RawConnection(server.url))
            connection.send(post(REPLIED_AT_LENGTH, "Content-Encoding: gzip", "Content-Type: application/json"))
        end = time.monotonic() + 10
        most = 0.0
        while time.monotonic() < end and most <= WORK_BYTES:
            most = max(most, metric(server, "assay_unread_reply_bytes"))
        assert most > WORK_BYTES
        assert most < WORK_BYTES + 8 * (5 << 20)  # plus one reply per thread
        with server.client() as client:  # clients that read are served once the others are disconnected
            assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS)
            reply = client.post("/v1/score", json=REQUEST | {"responses": REQUEST["responses"] * 1_000})
        assert reply.json()["rewards"] == pytest.approx(REWARDS * 1_000)
        stack.pop_all().close()
        assert comes_to(server, 30, unread_reply_bytes=0, work_bytes=0)
        assert rejections(server, "too_slow") > 0


# More connections than there may be


def test_too_many_connections_are_refused():
    """A server with few descriptors refuses further connections, logs why, and recovers."""
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
        assert in_time(lambda: is_served(server), 10)
        assert rejections(server, "descriptors") >= refusals
        assert server.log.count("file descriptors") == 1
        assert "Traceback" not in server.log


def is_served(server: LiveServer) -> bool:
    with RawConnection(server.url) as connection, suppress(OSError, EOFError):
        connection.send(post())
        return connection.reply().status == 200
    return False


# Refusals of clients that are still sending their body


MAX_BYTES = 16_000_000
TIMES = 8
KEYED = {"Content-Type": "application/json", "Authorization": "Bearer key"}
REFUSALS = {
    401: ("/v1/score", {**KEYED, "Authorization": "Bearer wrong"}, 15_000_000),
    404: ("/nowhere", KEYED, 15_000_000),
    413: ("/v1/score", KEYED, MAX_BYTES + 1),
    415: ("/v1/score", {**KEYED, "Content-Type": "text/plain"}, 15_000_000),
    422: ("/v1/score?nonsense=1", KEYED, 15_000_000),
    429: ("/v1/score", KEYED, 15_000_000),
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
    flags = ("--max-body-bytes", str(MAX_BYTES), "--max-work-bytes", "1000000", "--max-queued-bytes", "0")
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

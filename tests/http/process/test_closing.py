"""Closing of connections: half-closed clients get their replies, and no client holds resources forever."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.http.process.watching import comes_to, in_time, metric, rejections, samples_of, total_of
from tests.http.raw_connection import BODY, RawConnection, chunked, head, post
from tests.http.samples import REQUEST, REWARDS
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

LARGE = BODY[:-1] + b" " * 90_000 + b"}"
MANY = json.dumps({**REQUEST, "responses": ["nothing"] * 65_000, "include": ["components", "advantages"]}).encode()


# Clients that close their sending side, or all


HOLDING = """
import os, time
from assay.service.http.request.worker_threads import WorkerThreads
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
    with ready(*flags, before=HOLDING.format(path=str(hold))) as server:
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
            try:
                yield
            finally:
                hold.unlink()
            assert final_reply(first).status == 200
    finally:
        hold.unlink(missing_ok=True)


def final_reply(connection: RawConnection):
    """Return the final reply, after interim ones."""
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


def test_truncated_and_half_closed_connections_leave_nothing(narrow):
    """Nothing is kept of a truncated request, wherever it ends."""
    in_chunks = head("Transfer-Encoding: chunked") + chunked([b"{", b"}"])
    for whole, status in ((post(), 200), (in_chunks, 422)):
        for end in (*range(1, len(whole), 37), len(whole) - 1, len(whole)):
            with RawConnection(narrow.url) as connection:
                connection.send(whole[:end])
                connection.socket.shutdown(socket.SHUT_WR)
                with suppress(EOFError):
                    assert final_reply(connection).status == status
                assert connection.is_closed()
    assert comes_to(narrow, work_bytes=0, batches_unfinished=0)


def test_a_half_closed_client_gets_the_refusal_of_too_many_pipelined_requests(narrow):
    with RawConnection(narrow.url) as connection:
        connection.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        connection.socket.shutdown(socket.SHUT_WR)
        assert [final_reply(connection).status for _ in range(34)] == [200] * 33 + [429]
        assert connection.is_closed()


def test_a_malformed_chunk_of_a_client_that_expects_100_continue(narrow):
    """Its request has started when the malformed chunk arrives: nothing is written after the refusal."""
    with RawConnection(narrow.url) as connection:
        connection.send(head("Transfer-Encoding: chunked", "Expect: 100-continue") + b"ZZZ\r\n")
        assert final_reply(connection).status == 400
    time.sleep(0.2)
    assert "failed" not in narrow.log


def test_an_unread_reply_does_not_delay_the_exit():
    """On the same connection, another request is in flight when the shutdown times out."""
    with ready("--shutdown-seconds", "1") as server:
        with RawConnection(server.url) as connection:
            connection.send(post(MANY) + head("Content-Length: 100000") + b"{")
            assert comes_to(server, work_bytes=len(MANY) + 1)
            started = time.monotonic()
            assert server.stop() == 1
            assert time.monotonic() - started < 5
        assert "requests cut off" in server.log
        assert "Traceback" not in server.log


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


@pytest.mark.parametrize("path", ["/v1/score", "/compat/slime"])
def test_clients_that_hang_up_after_their_body_are_not_counted_as_served(narrow, hold, path):
    """Clients send a whole batch and disconnect at once: neither their requests nor their rewards count as served.

    The first one is noticed while its batch is in a thread, which does not read from the connection.
    """
    texts = {"response": "x" * 90_000, "label": REQUEST["references"][0]}
    body = LARGE if path == "/v1/score" else json.dumps(texts).encode()
    before = served(narrow, path)
    with RawConnection(narrow.url) as connection:
        connection.send(post(body, path=path))
        assert final_reply(connection).status == 200
    assert comes_to(narrow, work_bytes=0)
    once = served(narrow, path)
    assert once[0] == before[0] + 1
    assert once[1] > before[1]
    gone = metric(narrow, "assay_client_disconnects_total") + 1
    with RawConnection(narrow.url) as connection:
        connection.send(post(body, path=path)[:-1])  # it leaves before the last byte
    assert comes_to(narrow, work_bytes=0, client_disconnects_total=gone)
    for noticed in (True, False):
        hold.touch()  # the batch, which takes only milliseconds, is not ready before the client has gone
        gone += 1
        with RawConnection(narrow.url) as connection:
            connection.send(post(body, path=path))
            assert comes_to(narrow, work_bytes=len(body), batches_unfinished=1)
        assert not noticed or comes_to(narrow, client_disconnects_total=gone)
        hold.unlink()
        assert comes_to(narrow, work_bytes=0, client_disconnects_total=gone)
    assert served(narrow, path) == once


BUSY = """
import os, time
from assay.service.http.request.worker_threads import LoopBudget
take = LoopBudget.take
async def late(self, times):
    times.queue += 0.2
    while os.path.exists({path!r}):
        time.sleep(0.01)
    await take(self, times)
LoopBudget.take = late
"""
"""Keeps the event loop busy while a file exists."""


def test_a_short_request_of_a_client_that_has_gone_is_not_counted_as_served(tmp_path):
    """The event loop is busy while a client sends its request and disconnects."""
    busy = tmp_path / "busy"
    with ready(before=BUSY.format(path=str(busy))) as server:
        with RawConnection(server.url) as connection:
            connection.send(post())
            assert connection.reply().status == 200
        once = served(server, "/v1/score")
        busy.touch()
        with RawConnection(server.url) as connection:
            connection.send(post())
        busy.unlink()
        assert comes_to(server, client_disconnects_total=1)
        assert served(server, "/v1/score") == once


def served(server: LiveServer, path: str) -> tuple[float, float]:
    """Return the requests that a route has answered with 200, and the number of all rewards."""
    with server.client() as client:
        samples = samples_of(client)
    requests = total_of(samples, "assay_request_duration_seconds_count", route=path, code="200")
    return requests, total_of(samples, "assay_reward_count")


# Replies that nobody reads


BODY_SECONDS = 3.0


@pytest.fixture(scope="module")
def hurried() -> Iterator[LiveServer]:
    """Yield a server that gives clients three seconds to read a reply."""
    with ready("--body-seconds", str(BODY_SECONDS)) as server:
        yield server
        assert "Traceback" not in server.log


@contextmanager
def narrow_connection(server: LiveServer) -> Iterator[socket.socket]:
    """Yield a connection with a small receive buffer, to which a reply of some MB has begun: `MANY` was sent."""
    address = urlsplit(server.url)
    with closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(30)
        connection.connect((address.hostname, address.port))
        connection.sendall(post(MANY, "Connection: close"))
        assert connection.recv(12) == b"HTTP/1.1 200"
        yield connection


@pytest.mark.parametrize("pause", [None, 0.2], ids=["nothing", "a byte now and then"])
def test_an_unread_reply_holds_its_permit_until_the_timeout(hurried, pause):
    """What the kernel does not buffer stays in memory and is counted."""
    before = rejections(hurried, "too_slow")
    assert metric(hurried, "assay_work_bytes") == 0
    started = time.monotonic()
    with narrow_connection(hurried) as connection:
        while (held := metric(hurried, "assay_work_bytes")) == len(MANY):
            if pause is not None:
                with suppress(ConnectionResetError):  # the timeout may pass meanwhile
                    assert connection.recv(1)
            time.sleep(pause or 0.2)
        assert held == 0
        assert BODY_SECONDS < time.monotonic() - started < 10 * BODY_SECONDS
    assert rejections(hurried, "too_slow") == before + 1


def test_a_reply_that_is_read_in_time_is_complete(hurried):
    for _ in range(5):
        started, received = time.monotonic(), b""
        with narrow_connection(hurried) as connection, suppress(ConnectionResetError):
            time.sleep(0.5 * BODY_SECONDS)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            while piece := connection.recv(1 << 20):
                received += piece
        if received.endswith(b"}") or time.monotonic() - started < BODY_SECONDS:
            break  # else a busy machine has kept this client from reading in time
    assert json.loads(received.partition(b"\r\n\r\n")[2])["rewards"] == [0.0] * 65_000
    assert comes_to(hurried, work_bytes=0)


def test_a_client_that_never_reads_is_cut_off(hurried):
    """Replies accumulate for a client that reads none."""
    with RawConnection(hurried.url, timeout=1) as connection:

        def is_cut() -> bool:
            try:
                connection.send(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            except OSError as error:
                return not isinstance(error, TimeoutError)
            return False

        assert in_time(is_cut, 30)


@pytest.mark.slow
def test_unread_replies_delay_further_ones_and_their_clients_are_disconnected():
    """Without a bound, 16 of these clients would hold 80 MB."""
    work_bytes = 32 << 20
    large = gzip.compress(MANY)  # a short request with a reply of five megabytes, more than the socket buffers
    with ready("--max-work-bytes", str(work_bytes), "--body-seconds", "20") as server:
        with ExitStack() as stack:
            unread = []
            for _ in range(16):
                connection = stack.enter_context(RawConnection(server.url))
                connection.send(post(large, "Content-Encoding: gzip", "Content-Type: application/json"))
                unread.append(connection)
            end = time.monotonic() + 40
            most = 0.0
            while time.monotonic() < end and most < work_bytes / 2:
                most = max(most, metric(server, "assay_unread_reply_bytes"))
            assert work_bytes / 2 <= most <= work_bytes
            with server.client() as client:  # clients that read are served once the others are disconnected
                assert client.post("/v1/score", json=REQUEST).json()["rewards"] == pytest.approx(REWARDS)
                body = json.dumps(REQUEST | {"responses": REQUEST["responses"] * 1_000, "reference_index": [0] * 3_000})
                reply = client.post("/v1/score", content=body, headers={"content-type": "application/json"})
            assert reply.status_code == 200
            assert len(reply.json()["rewards"]) == 3_000
        assert comes_to(server, 30, unread_reply_bytes=0, work_bytes=0)
        assert rejections(server, "too_slow") > 0


# More connections than there may be


def test_too_many_connections_are_refused():
    """A server with few descriptors refuses further connections, logs why, and recovers."""
    with ready(descriptors=64) as server:
        connections = [RawConnection(server.url, timeout=5) for _ in range(200)]
        for connection in connections:
            connection.socket.setblocking(False)
        assert in_time(lambda: any(map(has_bytes, connections)), 30)
        refusals = 0
        for connection in connections:
            with suppress(OSError):
                refusals += connection.socket.recv(12) == b"HTTP/1.1 429"
            connection.close()
        assert refusals
        assert in_time(lambda: is_served(server), 10)
        assert rejections(server, "descriptors") >= refusals
        assert server.log.count("file descriptors") == 1
        assert "Traceback" not in server.log


def has_bytes(connection: RawConnection) -> bool:
    with suppress(OSError):
        return bool(connection.socket.recv(1, socket.MSG_PEEK))
    return False


def is_served(server: LiveServer) -> bool:
    with RawConnection(server.url) as connection, suppress(OSError, EOFError):
        connection.send(post())
        return connection.reply().status == 200
    return False

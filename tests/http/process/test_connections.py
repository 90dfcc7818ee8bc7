"""Slow, oversized and malformed requests: the connection ends with a reply that says why; others are unaffected."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.http.process.watching import rejections, resident
from tests.http.raw_connection import BODY, RawConnection, chunked, head, post
from tests.http.samples import PROBLEM_FIELDS, REQUEST, REWARDS
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

HEAD_BYTES = 8_192
SECONDS = 1.0
LONG = BODY[:-1] + b" " * 200_000 + b"}"
CHUNKS = head("Transfer-Encoding: chunked")
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def strict():
    """Yield a server with timeouts of one second for heads and bodies."""
    flags = ("--head-seconds", str(SECONDS), "--body-seconds", str(SECONDS), "--max-head-bytes", str(HEAD_BYTES))
    flags += ("--keep-alive-seconds", "4")
    with ready(*flags, "--max-body-bytes", "1000000") as server:
        yield server
        assert "Traceback" not in server.log


@pytest.fixture(scope="module")
def patient():
    """Yield a server with the same limits of size, whose timeouts no client misses, even on a busy machine."""
    with ready("--max-head-bytes", str(HEAD_BYTES), "--max-body-bytes", "1000000") as server:
        yield server
        assert "Traceback" not in server.log


@contextmanager
def connected(server: LiveServer) -> Iterator[RawConnection]:
    """Yield a connection; afterwards the server is as it was, also for a long body."""
    with RawConnection(server.url) as connection:
        yield connection
    with RawConnection(server.url) as other:
        other.send(post(LONG))
        expect_rewards(other)


@pytest.fixture
def connection(strict: LiveServer):
    with connected(strict) as connection:
        yield connection


@pytest.fixture
def unhurried(patient: LiveServer):
    with connected(patient) as connection:
        yield connection


def expect_rewards(connection: RawConnection, rewards: list[float] = REWARDS) -> None:
    assert connection.reply().json()["rewards"] == pytest.approx(rewards, abs=1e-12)


def expect_problem(connection: RawConnection, status: int, kind: str) -> None:
    reply = connection.reply()
    assert (reply.status, reply.json()["type"]) == (status, f"/docs#problem-{kind}")
    assert reply.json().keys() == PROBLEM_FIELDS
    assert reply.headers["connection"] == "close"
    assert reply.headers["x-request-id"] == reply.json()["instance"]
    assert connection.is_closed()


def test_a_silent_connection_is_closed_without_a_reply(strict):
    before = rejections(strict, "too_slow")
    started = time.monotonic()
    with connected(strict) as connection, pytest.raises(EOFError):
        connection.reply()
    assert 3 < time.monotonic() - started < 15
    assert rejections(strict, "too_slow") == before + 1


@pytest.mark.parametrize(
    ("sent", "status", "kind"),
    [
        (b"P", 408, "too-slow"),
        (b"POST /v1/score HTTP/1.1\r\n", 408, "too-slow"),
        (head()[:-2], 408, "too-slow"),
        (post()[: -len(BODY)], 408, "too-slow"),
        (post()[: 10 - len(BODY)], 408, "too-slow"),
        (post()[:-1], 408, "too-slow"),
        (post(LONG)[:-70_000], 408, "too-slow"),
        (b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\n\r\n", 431, "head-too-large"),
    ],
)
def test_requests_that_do_not_end(connection, strict, sent, status, kind):
    before = rejections(strict, kind.replace("-", "_"))
    connection.send(sent)
    expect_problem(connection, status, kind)
    assert rejections(strict, kind.replace("-", "_")) == before + 1


@pytest.mark.parametrize(("start", "drop"), [(head()[:-2] + b"X-Slow: ", b"x"), (CHUNKS, b"1\r\n \r\n")])
def test_a_head_and_a_body_that_trickle(connection, start, drop):
    connection.send(start)
    started = time.monotonic()
    with suppress(OSError):
        while time.monotonic() - started < 10:
            connection.send(drop)
            time.sleep(0.02)
    assert time.monotonic() - started < 10


def test_the_second_head_on_a_connection_has_a_timeout_too(connection):
    connection.send(post())
    assert connection.reply().status == 200
    time.sleep(1.5 * SECONDS)  # an idle connection is not a slow one
    connection.send(post()[:20])
    expect_problem(connection, 408, "too-slow")


@pytest.mark.parametrize("late", [False, True])
def test_the_rest_of_a_refused_body_is_not_waited_for(connection, late):
    """It resets the timer for idle connections, which nothing would start again."""
    connection.send(head("Content-Length: 100000", path="/nowhere"))
    assert connection.reply().status == 404
    started = time.monotonic()
    if late:
        connection.send(b" " * 100_000)
    assert connection.is_closed()
    assert (2 if late else 0) < time.monotonic() - started < 15


@pytest.mark.parametrize(
    ("fits", "exceeds"),
    [
        (["X-Long: " + "x" * (HEAD_BYTES - 100)], ["X-Long: " + "x" * HEAD_BYTES]),
        ([f"X-{k}: y" for k in range(100)], [f"X-{k}: y" for k in range(200)]),
    ],
)
def test_heads_up_to_the_limits(connection, fits, exceeds):
    connection.send(post(BODY, *fits))
    expect_rewards(connection)
    connection.send(post(BODY, *exceeds))
    expect_problem(connection, 431, "head-too-large")


@pytest.mark.parametrize(
    ("start", "flood", "reason"),
    [
        (b"GET /livez HTTP/1.1\r\n", b"T:\r\n" * 200, "head_too_large"),
        (head()[:-2] + b"X-Long: ", b"x" * 100_000, "head_too_large"),
        (head()[:-2], b"X-Many: y\r\n" * 10_000, "head_too_large"),
        (b"GET /", b"x" * 100_000, "head_too_large"),
        (CHUNKS + b"5;", b"x" * 100_000, "head_too_large"),
        (CHUNKS + b"0\r\nX-Trailer: ", b"x" * 100_000, "head_too_large"),
        (CHUNKS + b"0\r\n", b"X-Trailer: y\r\n" * 10_000, "head_too_large"),
        (CHUNKS, b"1\r\n \r\n" * 10_000, "too_large"),
    ],
    ids=[
        "short headers",
        "one header",
        "many headers",
        "address",
        "extension of a chunk",
        "one trailer",
        "many trailers",
        "chunks",
    ],
)
def test_floods_are_cut_off(unhurried, patient, start, flood, reason):
    before, idle = rejections(patient, reason), resident(patient.process.pid)
    unhurried.send(start)
    assert unhurried.send_until_closed(flood, 100_000_000) < 30_000_000  # most of it is the sockets' buffers
    assert rejections(patient, reason) == before + 1
    assert resident(patient.process.pid) - idle < 32 << 20


def test_pipelined_requests_are_answered_in_order(connection):
    ids = [f"ahead-{k}" for k in range(20)]
    connection.send(b"".join(post(BODY, f"X-Request-ID: {identity}") for identity in ids))
    for identity in ids:
        reply = connection.reply()
        assert reply.headers["x-request-id"] == identity
        assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_long_pipelined_bodies_reach_their_requests(unhurried):
    """Long and short bodies, some in chunks with extensions and trailers, split at arbitrary positions."""
    reverse = json.dumps({**REQUEST, "responses": REQUEST["responses"][::-1]}).encode() + b" " * 150_000
    pieces = [BODY[k : k + 7] for k in range(0, len(BODY), 7)]
    in_chunks = CHUNKS + chunked(pieces, b";name=value", b"X-Trailer: y\r\nX-Other: z\r\n")
    lined_up = b"".join([post(LONG), post(reverse), in_chunks, in_chunks, post(), post(LONG)])
    for start in range(0, len(lined_up), 70_001):
        unhurried.send(lined_up[start : start + 70_001])
        time.sleep(0.01)
    for rewards in (REWARDS, REWARDS[::-1], REWARDS, REWARDS, REWARDS, REWARDS):
        expect_rewards(unhurried, rewards)


def test_too_many_pipelined_requests(connection, strict):
    """Earlier requests are answered first; then the refusal is sent."""
    before = rejections(strict, "pipelined")
    connection.send(PROBE * 100)
    answered = 0
    while (reply := connection.reply()).status == 200:
        answered += 1
    assert answered == 33  # one that is in work, and those that wait
    assert (reply.status, reply.headers["connection"]) == (429, "close")
    assert connection.is_closed()
    assert rejections(strict, "pipelined") == before + 1
    assert strict.log.count("pipelined too many requests") == 1


def test_a_head_that_is_refused_after_whole_requests(connection):
    """They are still answered, including a batch."""
    connection.send(post(LONG) + post() + b"NOT HTTP\r\n\r\n")
    for _ in range(2):
        expect_rewards(connection)
    assert connection.reply().status == 400
    assert connection.is_closed()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"NOT HTTP\r\n\r\n",
        head("Content-Length: -1"),
        head("Content-Length: 5", "Content-Length: 6"),
        head("Content-Length: 5", "Transfer-Encoding: chunked"),
        CHUNKS + b"zz\r\n",
        head("Content-Length: 99999999999999999999999"),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /livez\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: other\r\n\r\n",
        b"GET /livez HTTP/1.0\r\nHost: localhost\r\nHost: other\r\n\r\n",
    ],
)
def test_invalid_http(connection, strict, sent):
    before = rejections(strict, "not_http")
    connection.send(sent)
    with suppress(EOFError):
        assert connection.reply().status == 400
    assert connection.is_closed()
    assert rejections(strict, "not_http") == before + 1


@pytest.mark.parametrize(
    "pieces",
    [
        [CHUNKS + b"ffffffffffffffff\r\n"],
        [CHUNKS + b"FFFFFFFFFFFFFFFF;name=value\r\n{"],
        [CHUNKS, b"7fffffffffffffff\r\n{"],
        [CHUNKS + b"ffff", b"ffffffffffff\r\n"],
        [CHUNKS + b"1\r\n{\r\n", b"40000000\r\n  "],
        [CHUNKS + b"1\r\n{\r\n0000f4241\r\n"],
        [head("Content-Length: 18446744073709551615")],
        [head("Content-Length: 18446744073709551615", path="/nowhere")],
    ],
)
def test_absurd_sizes_are_refused_at_once(unhurried, pieces):
    """Announce a chunk or a body of up to 2^64 - 1 bytes, and then wait."""
    for piece in pieces:
        unhurried.send(piece)
        time.sleep(0.05)
    started = time.monotonic()
    assert unhurried.reply().status in (404, 413)
    assert time.monotonic() - started < 10  # of the 30 seconds that a body may take here


@pytest.mark.parametrize("size", [b"0000000000000000000000000000000000000000001", b"1;ffffffffffffffff", b"1 "])
def test_chunks_that_only_look_long_are_read(unhurried, size):
    unhurried.send(CHUNKS + size + b"\r\n{\r\n" + b"9" + b"\r\nffffffff\n\r\n")
    unhurried.send(b"0\r\n\r\n")
    assert unhurried.reply().status == 400  # not JSON


def test_http_1_0_needs_no_host(connection):
    connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
    assert connection.reply().status == 200
    assert connection.is_closed()


def test_a_client_that_expects_100_continue(unhurried):
    unhurried.send(head(f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
    assert unhurried.reply().status == 100
    unhurried.send(BODY)
    expect_rewards(unhurried)


# Many connections that send nothing, little, or a reset: probes and scoring continue beside them


SLOWEST_SECONDS = 2.0
"""Wide: usually some milliseconds."""


def slowest(server: LiveServer) -> float:
    """Send probes and requests on new connections; return the longest time to a reply, in seconds."""
    seconds = []
    for k in range(40):
        started = time.monotonic()
        with RawConnection(server.url) as connection:
            connection.send(PROBE if k % 2 else post())
            reply = connection.reply()
        assert reply.status == 200
        assert k % 2 or reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
        seconds.append(time.monotonic() - started)
    return max(seconds)


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

    def reset() -> None:
        for k in range(1000):
            with RawConnection(server.url) as connection:
                connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.send(post()[: 1 + 97 * k % len(post())])

    threads = [threading.Thread(target=reset) for _ in range(2)]
    for thread in threads:
        thread.start()
    longest = 0.0
    while any(thread.is_alive() for thread in threads):
        longest = max(longest, slowest(server))
    assert longest < max(SLOWEST_SECONDS, 20 * alone)

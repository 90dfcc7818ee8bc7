"""Slow, oversized and malformed requests: the connection ends with a reply that says why; others are unaffected."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest

from tests.http.raw_connection import BODY, RawConnection, chunked, head, post
from tests.http.samples import PROBLEM_FIELDS, REQUEST, REWARDS
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

HEAD_BYTES = 8_192
SECONDS = 1.0


@pytest.fixture(scope="module")
def strict():
    """Yield a server with timeouts of one second for heads and bodies."""
    flags = ("--head-seconds", str(SECONDS), "--body-seconds", str(SECONDS), "--max-head-bytes", str(HEAD_BYTES))
    flags += ("--keep-alive-seconds", "4")
    with launched(*flags, "--max-body-bytes", "1000000", "--drain-seconds", "0") as server:
        server.wait_until_ready()
        yield server
        assert "Traceback" not in server.log


@pytest.fixture
def connection(strict: LiveServer):
    with RawConnection(strict.url) as connection:
        yield connection
    with RawConnection(strict.url) as other:  # afterwards the server is as it was
        other.send(post())
        assert other.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def expect_problem(connection: RawConnection, status: int, kind: str) -> None:
    reply = connection.reply()
    assert (reply.status, reply.json()["type"]) == (status, f"/docs#problem-{kind}")
    assert reply.json().keys() == PROBLEM_FIELDS
    assert reply.headers["connection"] == "close"
    assert reply.headers["x-request-id"] == reply.json()["instance"]
    assert connection.is_closed()


def rejected(server: LiveServer, reason: str) -> float:
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return next(
        float(line.split()[1]) for line in lines if line.startswith(f'assay_rejections_total{{reason="{reason}"')
    )


def test_a_silent_connection_is_closed_without_a_reply(connection, strict):
    before = rejected(strict, "too_slow")
    started = time.monotonic()
    with pytest.raises(EOFError):
        connection.reply()
    assert 3 < time.monotonic() - started < 15
    assert rejected(strict, "too_slow") == before + 1


@pytest.mark.parametrize("sent", [b"P", b"POST /v1/score HTTP/1.1\r\n", head()[:-2]])
def test_a_head_that_does_not_end(connection, sent):
    connection.send(sent)
    expect_problem(connection, 408, "too-slow")


def test_a_head_that_trickles(connection):
    started = time.monotonic()
    for byte in head("X-Slow: " + "x" * 1_000):
        try:
            connection.send(bytes([byte]))
        except OSError:
            break
        if time.monotonic() - started > 10:
            raise AssertionError("a head may trickle for ever")
        time.sleep(0.02)
    assert time.monotonic() - started < 10


def test_the_second_head_on_a_connection_has_a_timeout_too(connection):
    connection.send(post())
    assert connection.reply().status == 200
    time.sleep(1.5 * SECONDS)  # an idle connection is not a slow one
    connection.send(post()[:20])
    expect_problem(connection, 408, "too-slow")


@pytest.mark.parametrize("sent", [0, 10, len(BODY) - 1])
def test_a_body_that_does_not_come(connection, strict, sent):
    before = rejected(strict, "too_slow")
    connection.send(post()[: len(post()) - len(BODY) + sent])
    expect_problem(connection, 408, "too-slow")
    assert rejected(strict, "too_slow") == before + 1


def test_a_body_that_trickles_in_chunks(connection):
    connection.send(head("Transfer-Encoding: chunked"))
    started = time.monotonic()
    with suppress(OSError):
        while time.monotonic() - started < 10:
            connection.send(b"1\r\n \r\n")
            time.sleep(0.05)
    assert time.monotonic() - started < 10


def test_the_rest_of_a_refused_body_is_not_waited_for(connection):
    connection.send(head("Content-Length: 900000", path="/nowhere"))
    assert connection.reply().status == 404
    assert connection.is_closed()


def test_a_late_rest_of_a_refused_body_does_not_keep_a_connection_open(connection):
    """It resets the timer for idle connections, which nothing would start again."""
    connection.send(head("Content-Length: 100000", path="/nowhere"))
    assert connection.reply().status == 404
    connection.send(b" " * 100_000)
    started = time.monotonic()
    assert connection.is_closed()
    assert 2 < time.monotonic() - started < 15


def test_a_head_up_to_the_limit(connection):
    filler = HEAD_BYTES - 100
    connection.send(post(BODY, "X-Long: " + "x" * filler))
    assert connection.reply().status == 200
    connection.send(post(BODY, "X-Long: " + "x" * (filler + 100)))
    expect_problem(connection, 431, "head-too-large")


def test_a_long_address_and_many_headers(strict):
    with RawConnection(strict.url) as connection:
        connection.send(b"GET /" + b"x" * HEAD_BYTES + b" HTTP/1.1\r\n\r\n")
        expect_problem(connection, 431, "head-too-large")
    with RawConnection(strict.url) as connection:
        connection.send(post(BODY, *(f"X-{k}: y" for k in range(100))))
        assert connection.reply().status == 200
        connection.send(post(BODY, *(f"X-{k}: y" for k in range(200))))
        expect_problem(connection, 431, "head-too-large")


@pytest.mark.parametrize(
    ("start", "flood"),
    [
        (head()[:-2] + b"X-Long: ", b"x" * 100_000),
        (head()[:-2], b"X-Many: y\r\n" * 10_000),
        (b"GET /", b"x" * 100_000),
        (head("Transfer-Encoding: chunked") + b"5;", b"x" * 100_000),
        (head("Transfer-Encoding: chunked") + b"0\r\nX-Trailer: ", b"x" * 100_000),
        (head("Transfer-Encoding: chunked") + b"0\r\n", b"X-Trailer: y\r\n" * 10_000),
    ],
    ids=["one header", "many headers", "address", "extension of a chunk", "one trailer", "many trailers"],
)
def test_floods_are_cut_off(connection, start, flood):
    connection.send(start)
    assert connection.send_until_closed(flood, 100_000_000) < 30_000_000  # most of it is the sockets' buffers


def test_a_flood_of_chunks(connection, strict):
    before = rejected(strict, "too_large")
    connection.send(head("Transfer-Encoding: chunked"))
    sent = connection.send_until_closed(b"1\r\n \r\n" * 10_000, 100_000_000)
    assert sent < 30_000_000
    assert rejected(strict, "too_large") == before + 1


def test_chunks_with_extensions_and_trailers(connection):
    pieces = [BODY[k : k + 7] for k in range(0, len(BODY), 7)]
    body = chunked(pieces, b";name=value", b"X-Trailer: y\r\nX-Other: z\r\n")
    connection.send((head("Transfer-Encoding: chunked") + body) * 2)
    for _ in range(2):
        assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_pipelined_requests_are_answered_in_order(connection):
    ids = [f"ahead-{k}" for k in range(20)]
    connection.send(b"".join(post(BODY, f"X-Request-ID: {identity}") for identity in ids))
    for identity in ids:
        reply = connection.reply()
        assert reply.headers["x-request-id"] == identity
        assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_long_pipelined_bodies_reach_their_requests(connection):
    """Collected bodies, split at arbitrary positions, with short ones in between."""
    long = BODY[:-1] + b" " * 200_000 + b"}"
    other = json.dumps({**REQUEST, "responses": REQUEST["responses"][::-1]}).encode() + b" " * 150_000
    lined_up = b"".join(post(body) for body in (long, other, BODY, long))
    for start in range(0, len(lined_up), 70_001):
        connection.send(lined_up[start : start + 70_001])
        time.sleep(0.01)
    for expected in (REWARDS, REWARDS[::-1], REWARDS, REWARDS):
        assert connection.reply().json()["rewards"] == pytest.approx(expected, abs=1e-12)


def test_a_long_body_that_stops_half_way(connection, strict):
    """The body timeout ends the wait; the body of the next connection is collected as usual."""
    connection.send(post(BODY[:-1] + b" " * 200_000 + b"}")[:-70_000])
    expect_problem(connection, 408, "too-slow")
    with RawConnection(strict.url) as other:
        other.send(post(BODY[:-1] + b" " * 200_000 + b"}"))
        assert other.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_too_many_pipelined_requests(connection, strict):
    """Earlier requests are answered first; then the refusal is sent."""
    before = rejected(strict, "pipelined")
    connection.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
    answered = 0
    while (reply := connection.reply()).status == 200:
        answered += 1
    assert answered == 33  # one that is in work, and those that wait
    assert (reply.status, reply.headers["connection"]) == (429, "close")
    assert connection.is_closed()
    assert rejected(strict, "pipelined") == before + 1
    assert strict.log.count("pipelined too many requests") == 1


def test_a_head_that_is_refused_after_whole_requests(connection):
    """They are still answered, including a batch."""
    large = BODY[:-1] + b" " * 200_000 + b"}"
    connection.send(post(large) + post() + b"NOT HTTP\r\n\r\n")
    for _ in range(2):
        assert connection.reply().json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
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
        head("Transfer-Encoding: chunked") + b"zz\r\n",
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
    before = rejected(strict, "not_http")
    connection.send(sent)
    with suppress(EOFError):
        assert connection.reply().status == 400
    assert connection.is_closed()
    assert rejected(strict, "not_http") == before + 1


CHUNKS = head("Transfer-Encoding: chunked")


@pytest.mark.attack
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
def test_absurd_sizes_are_refused_at_once(connection, pieces):
    """Announce a chunk or a body of up to 2^64 - 1 bytes, and then wait."""
    for piece in pieces:
        connection.send(piece)
        time.sleep(0.05)
    started = time.monotonic()
    assert connection.reply().status in (404, 413)
    assert time.monotonic() - started < 0.5 * SECONDS


@pytest.mark.parametrize("size", [b"0000000000000000000000000000000000000000001", b"1;ffffffffffffffff", b"1 "])
def test_chunks_that_only_look_long_are_read(connection, size):
    connection.send(CHUNKS + size + b"\r\n{\r\n" + b"9" + b"\r\nffffffff\n\r\n")
    connection.send(b"0\r\n\r\n")
    assert connection.reply().status == 400  # not JSON


def test_http_1_0_needs_no_host(connection):
    connection.send(b"GET /livez HTTP/1.0\r\n\r\n")
    assert connection.reply().status == 200
    assert connection.is_closed()


def test_an_upgrade_is_ignored(connection):
    """The bytes after such a head may be another protocol, so the parser stops: an error, then the connection ends."""
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    connection.send(post(BODY, *upgrade))
    assert connection.reply().status == 400
    assert connection.is_closed()


def test_a_client_that_expects_100_continue(connection):
    connection.send(head(f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
    assert connection.reply().status == 100
    connection.send(BODY)
    assert connection.reply().status == 200

"""Requests that offer another protocol: they are answered like any other, and the connection stays open."""

from __future__ import annotations

import shutil
import subprocess

import orjson
import pytest

from tests.http.raw_connection import BODY, RawConnection, chunked, head, post
from tests.http.samples import REWARDS

JAVA = (
    "Connection: Upgrade, HTTP2-Settings",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    "Upgrade: h2c",
    "User-Agent: Java-http-client/17.0.13",
)
CURL = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAoAAP__AAIAAAAA")
WEBSOCKET = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")
CHUNKED = "Transfer-Encoding: chunked"
PIECES = [BODY[k : k + 50] for k in range(0, len(BODY), 50)]
SENT = {
    "Java": [post(BODY, *JAVA)],
    "curl": [post(BODY, *CURL)],
    "WebSocket": [post(BODY, *WEBSOCKET)],
    "another case": [post(BODY, "CONNECTION: keep-alive, UPGRADE", "UPGRADE: H2C")],
    "chunks": [head(*JAVA, CHUNKED) + chunked(PIECES, trailer=b"X-Trailer: y\r\n")],
    "a long head": [post(BODY, *JAVA, "X-Long: " + "x" * 30_000)],
    "the head in pieces": [bytes([byte]) for byte in post(BODY, *JAVA)[:-10]] + [BODY[-10:]],
    "the body apart": [head(*CURL, f"Content-Length: {len(BODY)}"), BODY],
}


@pytest.fixture
def connection(server):
    with RawConnection(server.url) as connection:
        yield connection


def expect_rewards(connection: RawConnection) -> None:
    reply = connection.reply()
    assert reply.status == 200
    assert "connection" not in reply.headers
    assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


@pytest.mark.parametrize("pieces", SENT.values(), ids=SENT.keys())
def test_the_body_is_scored_and_the_connection_goes_on(connection, pieces):
    for piece in pieces:
        connection.send(piece)
    expect_rewards(connection)
    connection.send(post())
    expect_rewards(connection)


def test_pipelined_requests_with_and_without_an_upgrade(connection):
    in_chunks = head(*CURL, CHUNKED) + chunked(PIECES)
    connection.send((post(BODY, *JAVA) + post() + in_chunks + post(BODY, *WEBSOCKET)) * 3)
    for _ in range(12):
        expect_rewards(connection)


def test_a_request_without_a_body(connection):
    request = "\r\n".join(("GET /livez HTTP/1.1", "Host: localhost", *WEBSOCKET, "", "")).encode()
    for _ in range(2):
        connection.send(request)
        reply = connection.reply()
        assert (reply.status, reply.headers.get("connection")) == (200, None)


def test_a_client_that_expects_100_continue(connection):
    connection.send(head(*CURL, f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
    assert connection.reply().status == 100
    connection.send(BODY)
    expect_rewards(connection)


def test_a_tunnel_is_refused(connection):
    connection.send(b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert connection.reply().status in (400, 404, 405)
    assert connection.is_closed()


@pytest.mark.attack
def test_limits_hold_for_heads_with_an_upgrade(connection):
    connection.send(post(BODY, *JAVA, *(f"X-{k}: y" for k in range(200))))
    assert connection.reply().status == 431
    assert connection.is_closed()


@pytest.mark.attack
def test_pipelined_upgrades_are_counted(connection):
    connection.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" * 100)
    statuses = [connection.reply().status for _ in range(34)]
    assert statuses == 33 * [200] + [429]


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_with_http2(server, tmp_path):
    if b"HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True, check=True).stdout:
        pytest.skip("this curl has no HTTP/2")
    body = tmp_path / "body.json"
    body.write_bytes(BODY)
    command = ["curl", "--silent", "--noproxy", "*", "--http2", "--header", "Content-Type: application/json"]
    command += ["--data-binary", f"@{body}", "--write-out", "\n%{num_connects}\n", *[f"{server.url}/v1/score"] * 2]
    first, connects, second, reconnects, _ = subprocess.run(
        command, capture_output=True, check=True, timeout=60
    ).stdout.split(b"\n")
    assert (connects, reconnects) == (b"1", b"0")
    for reply in (first, second):
        assert orjson.loads(reply)["rewards"] == pytest.approx(REWARDS, abs=1e-12)

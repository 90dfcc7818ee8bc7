"""Request bodies: encodings, limits, chunks, and clients that disconnect."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib

import httpx
import pytest

from assay.service.http.wire import headers as compression
from assay.service.http.wire.headers import MAX_FRAMES, Problem, check_encoding, decompress
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, errors_of, problem_of
from tests.servers import launched

BODY = json.dumps(REQUEST).encode()
LIMIT = 100_000


def gzipped(data: bytes) -> bytes:
    return gzip.compress(data)


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").compress(data)


def unsized_zstd(data: bytes) -> bytes:
    """Compress to a frame that does not declare its size."""
    stream = pytest.importorskip("zstandard").ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


ENCODINGS = {"gzip": gzipped, "zstd": zstd}


@pytest.fixture(scope="module")
def narrow():
    """Start a server with small limits."""
    flags = ("--max-body-bytes", str(LIMIT), "--max-responses", "10", "--max-reference-bytes", "500")
    with launched(*flags, "--drain-seconds", "0") as server:
        server.wait_until_ready()
        with server.client() as client:
            yield client


def post(client: httpx.Client, body: object, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post("/v1/score", content=body, headers={"content-type": "application/json"} | named)


@pytest.mark.parametrize("name", ENCODINGS)
def test_compressed_bodies(client, name):
    reply = post(client, ENCODINGS[name](BODY), content_encoding=name)
    assert reply.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


@pytest.mark.parametrize("name", ["GZIP", "x-gzip", "identity", "Identity"])
def test_names_of_encodings(client, name):
    body = BODY if name.lower() == "identity" else gzipped(BODY)
    assert post(client, body, content_encoding=name).status_code == 200


@pytest.mark.parametrize("name", ["br", "deflate", "compress", "gzip, gzip", "gzip, zstd", "nonsense"])
def test_unsupported_encodings(client, name):
    document = problem_of(post(client, BODY, content_encoding=name), 415)
    assert errors_of(document) == [("Content-Encoding", "unsupported_encoding")]


def test_zstd_is_unsupported_without_its_package(monkeypatch):
    monkeypatch.delitem(compression.DECOMPRESSORS, b"zstd", raising=False)
    with pytest.raises(Problem) as raised:
        check_encoding(b"zstd")
    assert raised.value.status == 415
    assert check_encoding(b"gzip") == b"gzip"
    assert decompress(gzipped(BODY), b"gzip", LIMIT) == BODY


@pytest.mark.attack
@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[: len(data) // 2],
        lambda data: data + b"x",
        lambda data: data[:12] + bytes(255 - byte for byte in data[12:]),
        lambda data: b"",
        lambda data: BODY,
    ],
    ids=["cut by one", "cut in half", "followed by text", "garbled", "empty", "not compressed"],
)
def test_damaged_streams(client, name, damage):
    document = problem_of(post(client, damage(ENCODINGS[name](BODY)), content_encoding=name), 400)
    assert errors_of(document)[0][0] == "body"


@pytest.mark.parametrize("name", ENCODINGS)
def test_streams_of_several_frames(client, name):
    compress = ENCODINGS[name]
    halves = compress(BODY[:50]) + compress(b"") + compress(BODY[50:])
    assert post(client, halves, content_encoding=name).status_code == 200


@pytest.mark.attack
@pytest.mark.parametrize("compress", [gzipped, zstd, unsized_zstd])
def test_decompression_is_bounded_to_the_byte(compress):
    encoding = b"gzip" if compress is gzipped else b"zstd"
    assert decompress(compress(b"x" * LIMIT), encoding, LIMIT) == b"x" * LIMIT
    with pytest.raises(Problem) as raised:
        decompress(compress(b"x" * (LIMIT + 1)), encoding, LIMIT)
    assert raised.value.kind == "too-large"


@pytest.mark.attack
@pytest.mark.parametrize("compress", [gzipped, zstd, unsized_zstd])
def test_bombs(narrow, compress):
    """256 MiB of one byte: 413 without being held in memory."""
    name = "gzip" if compress is gzipped else "zstd"
    bomb = compress(bytes(256 << 20))
    if len(bomb) > LIMIT:  # gzip cannot do better than 1:1032
        bomb = compress(bytes(90 << 20))
    assert len(bomb) < LIMIT
    assert errors_of(problem_of(post(narrow, bomb, content_encoding=name), 413)) == [("body", "too_large")]


@pytest.mark.attack
@pytest.mark.parametrize("name", ENCODINGS)
def test_floods_of_empty_frames(client, name):
    flood = ENCODINGS[name](b"") * (MAX_FRAMES + 1)
    assert errors_of(problem_of(post(client, flood, content_encoding=name), 400)) == [("body", "bad_encoding")]


def test_bodies_up_to_the_limit(narrow):
    padded = BODY + b" " * (LIMIT - len(BODY))
    assert post(narrow, padded).status_code == 200
    document = problem_of(post(narrow, padded + b" "), 413)
    assert errors_of(document) == [("body", "too_large")]


@pytest.mark.attack
def test_chunked_bodies_are_counted(narrow):
    def chunks(total: int):
        yield BODY
        for _ in range((total - len(BODY)) // 1000):
            yield b" " * 1000

    assert post(narrow, chunks(LIMIT)).status_code == 200
    assert problem_of(post(narrow, chunks(3 * LIMIT)), 413)


@pytest.mark.attack
def test_chunked_in_single_bytes(client):
    assert post(client, (bytes([byte]) for byte in BODY)).json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_too_large_is_answered_before_the_body_is_sent_and_the_connection_survives(narrow):
    with connected(narrow) as connection:
        connection.sendall(head(10 * LIMIT))
        status, headers, _ = read_reply(connection)
        assert status == 413
        assert "connection" not in headers
        connection.sendall(bytes(10 * LIMIT))
        connection.sendall(head(len(BODY)) + BODY)
        assert read_reply(connection)[0] == 200


def test_too_many_responses(narrow):
    request = {"references": [REFERENCE], "responses": [PERFECT] * 10}
    assert post(narrow, json.dumps(request)).status_code == 200
    request["responses"].append("one more")
    assert errors_of(problem_of(post(narrow, json.dumps(request)), 413)) == [("responses", "too_many")]
    request = {"references": [REFERENCE] * 11, "responses": [5], "x": 1}
    assert errors_of(problem_of(post(narrow, json.dumps(request)), 413)) == [("references", "too_many")]


def test_reference_limit_is_a_setting(narrow):
    long = REFERENCE + "\n" * (501 - len(REFERENCE))
    assert post(narrow, json.dumps(REQUEST | {"references": [long[:-1]]})).status_code == 200
    reply = post(narrow, json.dumps(REQUEST | {"references": [long]}))
    assert errors_of(problem_of(reply, 422)) == [("references[0]", "too_long")]


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        'APPLICATION/JSON;charset="UTF-8"',
        "application/json ; x=y",
        None,
    ],
)
def test_supported_media_types(client, media_type):
    headers = {} if media_type is None else {"content-type": media_type}
    assert client.post("/v1/score", content=BODY, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/problem+json",
        "application/jsonl",
        "json",
        ";",
    ],
)
def test_unsupported_media_types(client, media_type):
    reply = client.post("/v1/score", content=BODY, headers={"content-type": media_type})
    assert errors_of(problem_of(reply, 415)) == [("Content-Type", "unsupported_media_type")]


@pytest.mark.attack
def test_clients_that_disconnect_are_counted_and_not_logged(server, client, rollout_request):
    before = disconnects(client)
    batch = json.dumps(rollout_request(200, 5)).encode()
    for body, sent in ((BODY, len(BODY) - 10), (batch, len(batch) - 10), (batch, len(batch))):
        with connected(client) as connection:
            connection.sendall(head(len(body)) + body[:sent])
            time.sleep(0.02)
    for _ in range(100):
        if disconnects(client) >= before + 2:  # the batch may have been answered before its client disconnected
            break
        time.sleep(0.05)
    assert disconnects(client) >= before + 2
    assert "Traceback" not in server.log
    assert post(client, BODY).status_code == 200


def disconnects(client: httpx.Client) -> float:
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("assay_client_disconnects_total"))


def connected(client: httpx.Client) -> socket.socket:
    return socket.create_connection((client.base_url.host, client.base_url.port), timeout=30)


def head(length: int) -> bytes:
    return f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n".encode()


def read_reply(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Read the status, headers and body of one reply with a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    lines, _, body = data.partition(b"\r\n\r\n")
    first, *rest = lines.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in rest)
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65_536)
    return int(first.split()[1]), headers, body


@pytest.mark.attack
def test_the_overshoot_of_a_bomb_is_one_step():
    """Refusing a bomb takes memory for the limit and the expansion of one slice, not for the bomb."""
    import tracemalloc

    stream = zlib.compressobj(9, wbits=31)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(200)) + stream.flush()
    tracemalloc.start()
    with pytest.raises(Problem):
        decompress(bomb, b"gzip", LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20

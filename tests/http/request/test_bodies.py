"""Request bodies: encodings, limits, chunks, and clients that disconnect."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import nullcontext

import pytest
import zstandard

from assay.service.wire import media_types
from assay.service.wire.media_types import (
    ARROW,
    JSON,
    MAX_FRAMES,
    MAX_RATIO,
    MIN_RATIO_BYTES,
    check_encoding,
    decompress,
    media_type_of,
)
from assay.service.wire.problems import Problem
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, errors_of, problem_of
from tests.servers import ready

BODY = json.dumps(REQUEST).encode()
LIMIT = 100_000
HEADERS = {"content-type": "application/json"}


def unsized_zstd(data: bytes) -> bytes:
    """Compress to a frame that does not declare its size."""
    stream = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    return stream.compress(data) + stream.flush()


COMPRESSORS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "zstd": (b"zstd", zstandard.compress),
    "zstd without its size": (b"zstd", unsized_zstd),
}
compressors = pytest.mark.parametrize(("encoding", "compress"), COMPRESSORS.values(), ids=COMPRESSORS)


@pytest.fixture(scope="module")
def narrow():
    """Start a server with small limits."""
    flags = ("--max-body-bytes", str(LIMIT), "--max-responses", "10", "--max-reference-bytes", "500")
    with ready(*flags) as server, server.client() as client:
        yield client


def accepts(is_accepted: bool):
    return nullcontext() if is_accepted else pytest.raises(Problem)


def test_names_of_encodings():
    names = [b"gzip", b" GZIP ", b"x-gzip", b"identity", b"Identity", b"", b"zstd"]
    assert [check_encoding(name) for name in names] == [b"gzip"] * 3 + [b""] * 3 + [b"zstd"]
    for name in (b"br", b"deflate", b"compress", b"gzip, gzip", b"gzip, zstd", b"nonsense"):
        with pytest.raises(Problem, match="unsupported-encoding"):
            check_encoding(name)


def test_zstd_is_unsupported_without_its_package(monkeypatch):
    monkeypatch.delitem(media_types.DECOMPRESSORS, b"zstd")
    with pytest.raises(Problem) as raised:
        check_encoding(b"zstd")
    assert raised.value.status == 415
    assert check_encoding(b"gzip") == b"gzip"


@compressors
def test_streams_of_one_and_several_frames(encoding, compress):
    for body in (compress(BODY), compress(BODY[:50]) + compress(b"") + compress(BODY[50:])):
        assert decompress(body, encoding, len(BODY)) == BODY


DAMAGES = {
    "cut by one": lambda data: data[:-1],
    "followed by text": lambda data: data + b"x",
    "garbled": lambda data: data[:12] + bytes(255 - byte for byte in data[12:]),
    "empty": lambda data: b"",
    "not compressed": lambda data: BODY,
}


@pytest.mark.attack
@compressors
def test_damaged_streams(encoding, compress):
    for damage in DAMAGES.values():
        with pytest.raises(Problem) as raised:
            decompress(damage(compress(BODY)), encoding, LIMIT)
        assert raised.value.status == 400
        assert [(issue.path, issue.reason) for issue in raised.value.issues] == [("body", "bad_encoding")]


@pytest.mark.attack
@compressors
def test_decompression_is_bounded_to_the_byte(encoding, compress):
    limits = {
        "bytes": (LIMIT, lambda n: decompress(compress(b"x" * n), encoding, LIMIT)),
        "ratio": (MIN_RATIO_BYTES, lambda n: decompress(compress(b"x" * n), encoding, 1 << 30)),
        "frames": (MAX_FRAMES, lambda n: decompress(compress(b"") * n, encoding, LIMIT)),
    }
    for limit, decompressed in limits.values():
        decompressed(limit)
        with pytest.raises(Problem):
            decompressed(limit + 1)
    assert MAX_RATIO == 200


@pytest.mark.attack
def test_bombs():
    """Refusing a bomb takes memory for the limit and the expansion of one slice, not for the bomb."""
    stream = zlib.compressobj(9, wbits=31)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(200)) + stream.flush()
    tracemalloc.start()
    with pytest.raises(Problem):
        decompress(bomb, b"gzip", LIMIT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


@pytest.mark.attack
def test_bodies_up_to_the_limit(narrow):
    def chunks(total: int):
        yield BODY
        for start in range(len(BODY), total, 1000):
            yield b" " * min(1000, total - start)

    for length, status in ((LIMIT, 200), (LIMIT + 1, 413), (3 * LIMIT, 413)):
        for content in (BODY.ljust(length), chunks(length)):
            reply = narrow.post("/v1/score", content=content, headers=HEADERS)
            assert reply.status_code == status
            assert status == 200 or errors_of(problem_of(reply, 413)) == [("body", "too_large")]


def test_the_numbers_of_responses_and_references_and_their_lengths_are_settings(narrow):
    long = REFERENCE + "\n" * (501 - len(REFERENCE))
    ten = {"references": [REFERENCE], "responses": [PERFECT] * 10}
    for request, status, errors in (
        (ten, 200, None),
        (ten | {"responses": [PERFECT] * 11}, 413, ("responses", "too_many")),
        ({"references": [REFERENCE] * 11, "responses": [5], "x": 1}, 413, ("references", "too_many")),
        (REQUEST | {"references": [long[:-1]]}, 200, None),
        (REQUEST | {"references": [long]}, 422, ("references[0]", "too_long")),
    ):
        reply = narrow.post("/v1/score", json=request)
        assert reply.status_code == status
        assert errors is None or errors_of(problem_of(reply, status)) == [errors]


MEDIA_TYPES = {
    **dict.fromkeys(["application/json", 'APPLICATION/JSON;charset="UTF-8"', "application/json ; x=y", ""], JSON),
    **dict.fromkeys(["application/json; charset=utf8", "application/json;charset=utf-8;charset=utf-8"], JSON),
    ARROW.decode(): ARROW,
    **dict.fromkeys(["text/plain", "application/x-www-form-urlencoded", "application/problem+json", "json", ";"]),
    **dict.fromkeys(["application/json; charset=latin-1", "application/jsonl"]),
}


def test_media_types(client):
    for header, expected in MEDIA_TYPES.items():
        with accepts(expected is not None):
            assert media_type_of(header.encode()) == expected
    assert client.post("/v1/score", content=BODY).json()["rewards"] == pytest.approx(REWARDS)
    for name, value in (("Content-Type", "text/plain"), ("Content-Encoding", "br")):
        reply = client.post("/v1/score", content=BODY, headers={name: value})
        assert errors_of(problem_of(reply, 415))[0][0] == name

"""Hostile bodies, heads and connections: replies below 500 (or 503, 504), bounded memory, other clients unharmed."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import orjson
import pytest

from tests.faults.storm import Answer, Watch, check_settled, fetch, fetch_all, request, resident
from tests.http.raw_connection import head
from tests.http.samples import PERFECT, REFERENCE, REQUEST
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

MIB = 1 << 20
GIB = 1 << 30
BODY_BYTES = 64 * MIB
CEILING = 7 * BODY_BYTES
"""Bytes over an idle server, for one hostile body at a time."""


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with ready("--head-seconds", "3", "--body-seconds", "3", "--threads", "2", "--keep-alive-seconds", "5") as server:
        yield server


@pytest.fixture(autouse=True)
def unharmed(server: LiveServer, singles, rewards) -> Iterator[None]:
    """Beside every case a well-behaved client is served, and afterwards nothing is held any more."""
    before = resident(server.process.pid)
    with Watch(server, orjson.dumps(singles[0]), rewards[0]) as watch:
        yield
    assert not watch.failures
    assert max(watch.live) < 10
    check_settled(server)
    assert resident(server.process.pid) - before < CEILING


def in_bounds(server: LiveServer, body: bytes, *headers: str, copies: int = 1) -> list[Answer]:
    """Return the answers to copies of a body that are sent at once; check the server's memory all the while."""

    async def watched() -> tuple[list[Answer], int]:
        idle, highest = resident(server.process.pid), 0
        running = asyncio.ensure_future(fetch_all(server.url, [request(body, "/v1/score", *headers)] * copies, 90))
        while not running.done():
            highest = max(highest, resident(server.process.pid) - idle)
            await asyncio.sleep(0.01)
        return await running, highest

    answers, highest = asyncio.run(watched())
    print(f"\n{len(body) / MIB:.2f} MiB: {Counter(a.status for a in answers)}, {highest / MIB:.0f} MiB over idle")
    assert highest < CEILING
    return answers


def gzip_bomb(size: int) -> bytes:
    stream = zlib.compressobj(9, wbits=31)
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


def zstd_bomb(size: int, *, declared: bool) -> bytes:
    zstandard = pytest.importorskip("zstandard")
    stream = zstandard.ZstdCompressor(level=19, write_content_size=declared).compressobj(size=size if declared else -1)
    return b"".join(stream.compress(bytes(MIB)) for _ in range(size // MIB)) + stream.flush()


@pytest.mark.parametrize("name", ["gzip", "gzip in members", "zstd", "zstd that declares its size", "zstd in frames"])
def test_bombs(server, name):
    """A gibibyte in little, for each thread. Refused with 413 as soon as the limit is passed."""
    bombs = {
        "gzip": lambda: gzip_bomb(GIB),
        "gzip in members": lambda: gzip_bomb(GIB // 64) * 64,
        "zstd": lambda: zstd_bomb(GIB, declared=False),
        "zstd that declares its size": lambda: zstd_bomb(GIB, declared=True),
        "zstd in frames": lambda: zstd_bomb(GIB // 64, declared=True) * 64,
    }
    encoding = f"Content-Encoding: {name.split()[0]}"
    answers = in_bounds(server, bombs[name](), encoding, copies=2)
    assert {answer.status for answer in answers} == {413}


def request_with(response: bytes) -> bytes:
    return b'{"references": [%b], "responses": [%b]}' % (orjson.dumps(REFERENCE), response)


DEEP = b"[" * 100_000 + b"]" * 100_000


HOSTILE = {
    "-1e400 in an index": (b'{"references": [], "responses": [], "reference_index": [-1e400]}', 400),
    "duplicate keys": (b'{"responses": [], "references": [], "responses": [7], "responses": []}', None),
    "huge int": (request_with(b"9" * 100_000), 422),
    "huge int in an index": (b'{"references": [], "responses": [], "reference_index": [%b]}' % (b"9" * 100_000), None),
    "huge int in config": (b'{"references": [], "responses": [], "config": {"max_steps": %b}}' % (b"9" * 5_000), None),
    "deep arrays in a response": (request_with(DEEP), None),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, None),
    "deep config": (b'{"references": [], "responses": [], "config": {"order": %b}}' % DEEP, None),
    "deep and never closed": (b"[" * 16_000_000, 400),
    "16 MB of empty arrays as responses": (request_with(b"[]," * 5_600_000 + b"[]"), None),
    "16 MB of empty objects as references": (
        b'{"responses": [], "references": [' + b"{}," * 5_600_000 + b"{}]}",
        None,
    ),
    "16 MB of numbers as config": (
        b'{"references": [], "responses": [], "config": {"a": [' + b"1," * 8_000_000 + b"1]}}",
        None,
    ),
    "one unknown field of 16 MB": (b'{"%b": 1}' % (b"x" * 16_000_000), 422),
    "nul bytes": (bytes(16_000_000), 400),
    "quotes": (b'"' * 16_000_001, 400),
    "escapes": (request_with(b'"' + b"\\u0041" * 2_600_000 + b'"'), None),
    "endless blanks": (b" " * 16_000_000, 400),
}
"""Bodies and, if it is always the same, the status. Short ones are in tests/http/wire, shapes of every route in
tests/http/limits."""


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json(server, name):
    body, expected = HOSTILE[name]
    (answer,) = in_bounds(server, body)
    assert 0 < answer.status < 500 or answer.status in (503, 504)
    assert answer.seconds < 40
    if expected is not None:
        assert answer.status == expected, answer.body[:300]
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert len(answer.body) < 100_000


def test_a_sentence_of_each_kind_of_row(server):
    """Responses at the limits of what may be scored: the time of one is bounded, whatever it is made of."""
    rows = [PERFECT * 90, "<think>" * 37_000, "a " * 130_000, "\u0301" * 130_000, "{" * 262_000, "Step 1: {" * 29_000]
    (answer,) = in_bounds(server, orjson.dumps({"references": [REFERENCE], "responses": rows * 5}))
    assert answer.status == 200
    assert len(answer.json()["rewards"]) == 30


def test_floods_of_chunks(server):
    """Ten connections that send a byte at a time in chunks, as fast as they can."""
    data = head("Transfer-Encoding: chunked") + b"1\r\n \r\n" * 2_000_000
    started = time.monotonic()
    statuses = Counter(answer.status for answer in asyncio.run(fetch_all(server.url, [data] * 10, 60)))
    print(f"\n{statuses} in {time.monotonic() - started:.1f} s")
    assert statuses.keys() <= {0, 413}  # 0: the reply was overtaken by the end of the connection
    assert time.monotonic() - started < 60


@pytest.mark.parametrize("part", ["nothing", "head", "body", "chunks"])
def test_slow_loris(server, part):
    """A thousand connections that trickle: all of them are ended in time."""
    starts = {
        "nothing": b"",
        "head": b"POST /v1/score HTTP/1.1\r\nX-Slow: ",
        "body": head("Content-Length: 60000"),
        "chunks": head("Transfer-Encoding: chunked"),
    }
    drops = {"nothing": b"", "head": b"x", "body": b" ", "chunks": b"1\r\n \r\n"}
    address = urlsplit(server.url)

    async def loris() -> float:
        started = time.monotonic()
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(starts[part])
        while time.monotonic() - started < 40:
            try:
                await asyncio.wait_for(reader.read(65_536), 0.5)
                break
            except TimeoutError:
                writer.write(drops[part])
            except OSError:
                break
        writer.transport.abort()
        return time.monotonic() - started

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(loris() for _ in range(1_000)))

    lived = asyncio.run(all_of_them())
    print(f"\n{part}: ended after {min(lived):.1f} to {max(lived):.1f} s")
    assert max(lived) < 20


def test_a_compressed_body_that_never_ends_is_not_waited_for(server):
    body = gzip.compress(orjson.dumps(REQUEST))
    answer = asyncio.run(fetch(server.url, request(body, "/v1/score", "Content-Encoding: gzip")[:-5], 30))
    assert answer.status == 408

"""Ten thousand requests that go wrong in every way: afterwards every permit is back, and nothing is slower."""

from __future__ import annotations

import asyncio
import gzip
import random
from collections import Counter
from contextlib import suppress
from time import perf_counter
from urllib.parse import urlsplit

import orjson
import pytest

from examples.rollouts import as_request, generate
from tests.faults.storm import Watch, check_settled, fetch, fetch_all, request
from tests.http.raw_connection import chunked, head
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

REQUESTS, TOGETHER = 10_000, 200
MEDIUM = 200
"""Responses of a batch that goes to the threads: above `inline_bytes`, small enough to send thousands."""

STATUSES = {0, 200, 400, 401, 404, 405, 408, 413, 415, 422, 429, 431, 503, 504}


@pytest.mark.soak
def test_every_permit_comes_back(singles, rewards):
    flags = ("--max-work-bytes", "4000000", "--max-queued-bytes", "8000000", "--max-body-bytes", "3000000")
    flags += ("--body-seconds", "2", "--head-seconds", "2")
    bodies = [orjson.dumps(single) for single in singles]
    batch = orjson.dumps(as_request(generate(MEDIUM // 5, 5, 4)))
    with ready(*flags) as server, ready(*flags) as other:
        speeds(server, other, bodies, batch)
        with Watch(server, bodies[0], rewards[0]) as watch:
            outcomes = asyncio.run(storm(server, bodies, batch, seed=1))
        check_settled(server)
        after, unharmed = speeds(server, other, bodies, batch)
    print(f"\n{outcomes}\nsingles, batches a second afterwards {after}, on a server that was spared {unharmed}")
    assert outcomes.keys() <= STATUSES
    assert {0, 200, 400, 408, 413, 422, 429, 504} <= outcomes.keys()
    assert not watch.failures
    assert all(now > 0.7 * then for then, now in zip(unharmed, after, strict=True))


async def storm(server: LiveServer, bodies: list[bytes], batch: bytes, seed: int) -> Counter[int]:
    dice = random.Random(seed)
    at_once = asyncio.Semaphore(TOGETHER)
    outcomes: Counter[int] = Counter()

    async def request_once() -> None:
        async with at_once:
            outcomes[await misbehave(server, bodies, batch, dice)] += 1

    await asyncio.gather(*(request_once() for _ in range(REQUESTS)))
    return outcomes


async def misbehave(server: LiveServer, bodies: list[bytes], batch: bytes, dice: random.Random) -> int:
    """Send one request of any kind; return the status of its reply, 0 if the client leaves before."""
    body = batch if dice.random() < 0.3 else dice.choice(bodies)
    whole = request(body)
    kind = dice.randrange(12)
    if kind < 2:  # leaves in the middle of the body, or while it is queued or scored
        return await leave(server, whole[: dice.randrange(len(whole))] if kind else whole, dice.random() / 20)
    zipped, pieces = "Content-Encoding: gzip", [body[k : k + 4_096] for k in range(0, len(body), 4_096)]
    variants = {
        2: lambda: whole[:-10],  # and waits
        3: lambda: request(body[:-3] + b"???"),
        4: lambda: request(body, "/v1/score", "X-Request-Timeout: 0.002"),
        5: lambda: request(gzip.compress(bytes(4_000_000)), "/v1/score", zipped),
        6: lambda: request(gzip.compress(body, 1), "/v1/score", zipped),
        7: lambda: head("Transfer-Encoding: chunked", "Connection: close") + chunked(pieces),
        8: lambda: request(orjson.dumps(orjson.loads(body) | {"references": ["nothing that could be read"]})),
        9: lambda: request(bytes(3_000_001)),
    }
    data = variants[kind]() if kind in variants else whole
    return (await fetch(server.url, data, 20 if kind == 2 else 120)).status


async def leave(server: LiveServer, data: bytes, after: float) -> int:
    """Send this much, wait, and go without a word."""
    address = urlsplit(server.url)
    with suppress(OSError):
        _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(data)
        await asyncio.sleep(after)
        writer.transport.abort()
    return 0


def speeds(server: LiveServer, other: LiveServer, bodies: list[bytes], batch: bytes) -> list[tuple[float, float]]:
    """Singles and batches a second of two servers, measured in turns: the best of several bursts each."""

    def rate(url: str, sent: list[bytes]) -> float:
        started = perf_counter()
        answers = asyncio.run(fetch_all(url, map(request, sent), at_once=4))
        assert all(answer.status == 200 for answer in answers)
        return len(sent) / (perf_counter() - started)

    maxima = []
    for sent in (bodies, [batch] * 20):
        turns = [(rate(server.url, sent), rate(other.url, sent)) for _ in range(8)]
        maxima.append([max(column) for column in zip(*turns, strict=True)])
    return list(zip(*maxima, strict=True))

"""Fairness: singles do not wait for batches, and clients that announce long bodies stop no batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import orjson
import pytest

from examples.rollouts import as_request, generate
from tests.http.limits.posting import ATTEMPTS, connected
from tests.http.raw_connection import RawConnection, head
from tests.servers import LiveServer, ready

pytestmark = [pytest.mark.attack, pytest.mark.slow]

A_SECOND = 100
SINGLES_SECONDS = 6
CONNECTIONS = 8
TOLERANCE = 0.005
"""Seconds of tolerance for a busy machine."""


def test_singles_beside_batches(fresh_server, batch: bytes, single: bytes) -> None:
    seen = []
    for _ in range(ATTEMPTS):
        alone = p99_of_singles(fresh_server.url, single)
        ended = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            batches = pool.submit(batches_until, ended, fresh_server.url, batch)
            beside = p99_of_singles(fresh_server.url, single)
            ended.set()
        assert sum(batches.result()) > SINGLES_SECONDS / 2  # there were some most of the time
        seen.append((alone, beside, float(np.median(batches.result()))))
        if is_fair(*seen[-1]):
            break
    print("p99:", [f"alone {1e3 * a:.1f} ms, beside batches of {1e3 * c:.0f} ms {1e3 * b:.1f} ms" for a, b, c in seen])
    assert any(is_fair(*measured) for measured in seen), seen


def is_fair(alone: float, beside: float, batch: float) -> bool:
    """Return True if the goal is met, or, on a busy machine, if few singles wait for half a batch."""
    return beside <= max(5 * alone + TOLERANCE, batch / 2)


def p99_of_singles(url: str, body: bytes) -> float:
    """Return the 99th percentile of seconds from due time to reply, at a constant rate (open loop)."""
    taken = np.full(SINGLES_SECONDS * A_SECOND, np.inf)
    start = time.perf_counter() + 0.2

    def send(first: int) -> None:
        with connected(url) as connection:
            assert connection.score(body)[0] == 200
            for k in range(first, len(taken), CONNECTIONS):
                due = start + k / A_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
                if connection.score(body)[0] == 200:
                    taken[k] = time.perf_counter() - due

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(send, range(CONNECTIONS)))
    return float(np.quantile(taken, 0.99, method="higher"))


def batches_until(ended: threading.Event, url: str, body: bytes) -> list[float]:
    """Send batches on one connection, each as soon as the previous one is answered; return the seconds of each."""
    seconds = []
    with connected(url) as connection:
        while not ended.is_set():
            started = time.perf_counter()
            if connection.score(body)[0] == 200:
                seconds.append(time.perf_counter() - started)
    return seconds


ANNOUNCED = 60 << 20
SECONDS = 3.0
MIN_RATIO = 0.3
"""Of the rate of batches without an attack; each socket of an attack also costs time on a machine of two cores."""

FIRST_BYTES = {"one byte": 1, "a byte now and then": 1, "some MiB": 4 << 20, "chunks": 200_000}

LOADS = [(kind, sockets) for kind in FIRST_BYTES for sockets in (4, 64) if (kind, sockets) != ("some MiB", 64)]
"""Not 64 sockets of some MiB: 256 MiB every few seconds are more than the sockets of one process can bear."""


@pytest.fixture(scope="module")
def steady() -> Iterator[LiveServer]:
    """Yield a server whose budget holds one of the announced bodies."""
    with ready("--max-work-bytes", str(64 << 20)) as server:
        yield server
        assert "Traceback" not in server.log


def rate(url: str, body: bytes) -> float:
    """Return the batches per second that one client gets scored."""
    answered, started = 0, time.monotonic()
    with connected(url) as connection:
        while time.monotonic() - started < SECONDS:
            answered += connection.score(body)[0] == 200
    return answered / (time.monotonic() - started)


@contextmanager
def announcing(url: str, kind: str, sockets: int) -> Iterator[None]:
    """Announce bodies on many connections, send little of them, and start again once they are refused."""
    ended = threading.Event()
    length = "Transfer-Encoding: chunked" if kind == "chunks" else f"Content-Length: {ANNOUNCED}"
    begun = head(length, "Content-Type: application/json")
    begun += b"%x\r\n" % (1 << 20) if kind == "chunks" else b""
    begun += b"{" + b" " * (FIRST_BYTES[kind] - 1)

    def attack() -> None:
        while not ended.is_set():
            with suppress(OSError), RawConnection(url) as connection:
                connection.send(begun)
                connection.socket.settimeout(0.05)
                while not ended.is_set():
                    if kind == "a byte now and then":
                        connection.send(b" ")
                    with suppress(TimeoutError):
                        connection.socket.recv(1000)
                        break

    with ThreadPoolExecutor(sockets) as pool:
        for _ in range(sockets):
            pool.submit(attack)
        try:
            time.sleep(0.5)
            yield
        finally:
            ended.set()


@pytest.mark.parametrize(("kind", "sockets"), LOADS)
def test_announced_bodies_stop_no_batch(steady, kind, sockets):
    """Sockets announce 60 MiB each, send a byte, a byte now and then, 4 MiB, or part of a chunk, and then nothing."""
    batch = orjson.dumps(as_request(generate(150, 5, 7)))
    for _ in range(ATTEMPTS):
        alone = rate(steady.url, batch)
        with announcing(steady.url, kind, sockets):
            beside = rate(steady.url, batch)
        print(f"\n{kind}, {sockets} sockets: {beside:.1f} batches/s of {alone:.1f}")
        if beside > MIN_RATIO * alone:
            break
    assert beside > MIN_RATIO * alone

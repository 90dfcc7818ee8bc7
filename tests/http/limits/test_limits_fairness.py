"""A single response that arrives while batches are scored does not wait for them."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests.http.limits.posting import Connection, connected

pytestmark = pytest.mark.slow

A_SECOND = 100
SECONDS = 6
CONNECTIONS = 8
TOLERANCE = 0.005
"""Seconds of tolerance for a busy machine."""

ATTEMPTS = 3
"""Other work on the machine only makes measurements worse, so the best of several counts."""


@pytest.mark.attack
def test_singles_beside_batches(fresh_server, batch: bytes, single: bytes) -> None:
    seen = []
    for _ in range(ATTEMPTS):
        alone = p99_of_singles(fresh_server.url, single)
        with BackToBack(fresh_server.url, batch) as batches:
            beside = p99_of_singles(fresh_server.url, single)
        assert batches.answered >= 3
        seen.append((alone, beside, batches.median))
        if is_fair(*seen[-1]):
            break
    print("p99:", [f"alone {1e3 * a:.1f} ms, beside batches of {1e3 * c:.0f} ms {1e3 * b:.1f} ms" for a, b, c in seen])
    assert any(is_fair(*found) for found in seen), seen


def is_fair(alone: float, beside: float, batch: float) -> bool:
    """Return True if the goal is met, or, on a busy machine, if few singles wait for half a batch."""
    return beside <= max(5 * alone + TOLERANCE, batch / 2)


def p99_of_singles(url: str, body: bytes) -> float:
    """Return the 99th percentile of seconds from due time to reply, at a constant rate (open loop)."""
    taken = np.full(SECONDS * A_SECOND, np.inf)
    start = time.perf_counter() + 0.2

    def send(first: int) -> None:
        with connected(url) as connection:
            assert connection.score(body)[0] == 200
            for k in range(first, len(taken), CONNECTIONS):
                due = start + k / A_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
                if connection.score(body)[0] == 200:
                    taken[k] = time.perf_counter() - due

    threads = [threading.Thread(target=send, args=(first,)) for first in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return float(np.quantile(taken, 0.99, method="higher"))


class BackToBack:
    """Sends batches on one connection, each as soon as the previous one is answered."""

    def __init__(self, url: str, body: bytes) -> None:
        self._seconds: list[float] = []
        self._connection = Connection(url)
        self._body = body
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def _send(self) -> None:
        while not self._ended.is_set():
            started = time.perf_counter()
            if self._connection.score(self._body)[0] == 200:
                self._seconds.append(time.perf_counter() - started)

    @property
    def answered(self) -> int:
        return len(self._seconds)

    @property
    def median(self) -> float:
        """Median of the seconds per batch."""
        return float(np.median(self._seconds))

    def __enter__(self) -> BackToBack:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._connection.close()

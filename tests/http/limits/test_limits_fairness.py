"""One response that arrives while batches are scored does not wait for them."""

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
"""Seconds, for what a busy machine adds whatever the service does."""

ATTEMPTS = 3
"""Other work on the machine makes one measurement worse, never better: the best of some counts."""


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
    """The goal, or on a machine too busy to show it: hardly any single waits for as much as half a batch."""
    return beside <= max(5 * alone + TOLERANCE, batch / 2)


def p99_of_singles(url: str, body: bytes) -> float:
    """Seconds from when a request was due to its reply, at a steady rate that no slow reply holds up."""
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
    """Batches on one connection, the next one as soon as the last is answered."""

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
        """Seconds that a batch took."""
        return float(np.median(self._seconds))

    def __enter__(self) -> BackToBack:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._connection.close()

"""A minimal keep-alive connection, and probes beside it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}

ATTEMPTS = 3
"""Other work on the machine only makes measurements worse, so the best of several counts."""


class Connection:
    """One connection to a server."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=120)
        self.close = self._client.close

    def send(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] = JSON) -> tuple[int, bytes]:
        """Send a request; return the status and body of the reply."""
        self._client.request(method, path, body, headers)
        reply = self._client.getresponse()
        return reply.status, reply.read()

    def score(self, body: bytes, headers: dict[str, str] = JSON, query: str = "") -> tuple[int, bytes]:
        return self.send("POST", f"/v1/score{query}", body, headers)


def connected(url: str) -> closing[Connection]:
    return closing(Connection(url))


@contextmanager
def repeated(work: Callable[[], None], pause: float) -> Iterator[None]:
    """Do `work` again and again on another thread, with pauses in seconds."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            work()
            ended.wait(pause)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def machine_delays() -> Iterator[list[float]]:
    """Yield by how many seconds the machine wakes a thread too late, each time; measured until the end."""
    delays = [0.0]

    def measure() -> None:
        started = time.perf_counter()
        time.sleep(0.01)
        delays.append(time.perf_counter() - started - 0.01)

    with repeated(measure, 0):
        yield delays


@contextmanager
def probed(url: str, longest: float) -> Iterator[None]:
    """Probe /livez all the time; each probe must be answered within `longest` seconds, all but one in a quarter.

    On a busy machine, each may take ten times longer than the machine delays a thread that only sleeps.
    """
    waits: list[float] = []

    def probe() -> None:
        started = time.perf_counter()
        with connected(url) as connection:
            assert connection.send("GET", "/livez")[0] == 200
        waits.append(time.perf_counter() - started)

    with machine_delays() as delays, repeated(probe, 0.01):
        yield
    assert waits
    *others, slowest = sorted(waits)
    delay = 10 * max(delays)
    assert slowest < longest + delay
    assert max(others, default=0.0) < longest / 4 + delay  # one may be late on a busy machine

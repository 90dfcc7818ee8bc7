"""A minimal keep-alive connection, and probes beside it."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}


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


def machine_delay(ended: threading.Event) -> float:
    """Return how late the machine wakes a thread, at most."""
    longest = 0.0
    while not ended.is_set():
        started = time.perf_counter()
        time.sleep(0.01)
        longest = max(longest, time.perf_counter() - started - 0.01)
    return longest


@contextmanager
def probed(url: str, longest: float) -> Iterator[None]:
    """Probe /livez all the time; each probe must be answered within `longest` seconds, all but one in a quarter.

    On a busy machine, each may take ten times longer than the machine delays a thread that only sleeps.
    """
    ended = threading.Event()
    waits: list[float] = []
    delays: list[float] = []

    def probe() -> None:
        while not ended.is_set():
            started = time.perf_counter()
            with connected(url) as connection:
                assert connection.send("GET", "/livez")[0] == 200
            waits.append(time.perf_counter() - started)
            ended.wait(0.01)

    threads = [threading.Thread(target=probe), threading.Thread(target=lambda: delays.append(machine_delay(ended)))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert waits
    *others, slowest = sorted(waits)
    assert slowest < longest + 10 * delays[0]
    assert max(others, default=0.0) < longest / 4 + 10 * delays[0]  # one may be late on a busy machine

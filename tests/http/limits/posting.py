"""A minimal keep-alive connection, and probes beside it."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}
MIB = 1 << 20


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    connection = Connection(url)
    try:
        yield connection
    finally:
        connection.close()


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

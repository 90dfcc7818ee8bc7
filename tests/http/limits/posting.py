"""A minimal keep-alive connection."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

JSON = {"content-type": "application/json"}


class Connection:
    """One connection to `POST /v1/score`."""

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        self._client = http.client.HTTPConnection(str(address.hostname), address.port, timeout=120)

    def score(self, body: bytes, headers: dict[str, str] = JSON, query: str = "") -> tuple[int, bytes]:
        """Send a request; return the status and body of the reply."""
        self._client.request("POST", f"/v1/score{query}", body, headers)
        reply = self._client.getresponse()
        return reply.status, reply.read()

    def close(self) -> None:
        self._client.close()


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    connection = Connection(url)
    try:
        yield connection
    finally:
        connection.close()

"""Many concurrent clients, each on a separate connection, and a well-behaved client that checks its replies."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterable
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.http.process.watching import comes_to, resident
from tests.servers import LiveServer

__all__ = ["Answer", "Watch", "check_settled", "fetch", "fetch_all", "peak", "request", "resident"]


class Answer(NamedTuple):
    """A reply; without one, status 0 and the error's name as the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float = 0.0

    def json(self) -> Any:
        return json.loads(self.body)


def request(
    body: bytes, path: str = "/v1/score", *headers: str, media_type: str = "application/json", keep: bool = False
) -> bytes:
    """Return a complete request that closes its connection, or keeps it."""
    usual = ("Host: localhost", f"Content-Type: {media_type}", f"Connection: {'keep-alive' if keep else 'close'}")
    lines = (f"POST {path} HTTP/1.1", *usual, *headers, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(lines).encode() + body


async def fetch(url: str, data: bytes, timeout: float = 120.0) -> Answer:
    """Send bytes on a fresh connection, and read the reply to its end."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(timeout):
            return (await _fetch(url, data))._replace(seconds=time.perf_counter() - started)
    except (OSError, TimeoutError, EOFError, ValueError) as error:
        return Answer(0, {}, type(error).__name__.encode(), time.perf_counter() - started)


async def fetch_all(url: str, requests: Iterable[bytes], timeout: float = 120.0, at_once: int = 10_000) -> list[Answer]:
    """Fetch all, at most `at_once` of them at a time."""
    free = asyncio.Semaphore(at_once)

    async def fetch_one(data: bytes) -> Answer:
        async with free:
            return await fetch(url, data, timeout)

    return await asyncio.gather(*map(fetch_one, requests))


async def _fetch(url: str, data: bytes) -> Answer:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(data)  # all of it, while the reply is awaited: a refusal comes before the body has been sent
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        return Answer(int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"])))
    finally:
        writer.transport.abort()


def peak(pid: int) -> int:
    return resident(pid, "VmHWM")


def check_settled(server: LiveServer) -> None:
    """Check that the service comes to hold nothing of its budgets, and has logged no traceback."""
    assert comes_to(server, 60, work_bytes=0, queued_bytes=0, queued_requests=0, batches_unfinished=0)
    assert "Traceback" not in server.log


class Watch:
    """A well-behaved client during the storm: it requests /livez and one reward, ten times a second.

    `failures` and `waits` (seconds of each reward) are its results; rewards must be right to the last bit.
    """

    def __init__(self, server: LiveServer, body: bytes, reward: float, pause: float = 0.1) -> None:
        self.failures: list[str] = []
        self.waits: list[float] = []
        self.live: list[float] = []
        self._address = urlsplit(server.url)
        self._body, self._reward, self._pause = body, reward, pause
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            self.live.append(self._timed("GET", "/livez"))
            self.waits.append(self._timed("POST", "/v1/score", self._body))
            self._ended.wait(self._pause)

    def _timed(self, method: str, path: str, body: bytes | None = None) -> float:
        started = time.perf_counter()
        client = HTTPConnection(str(self._address.hostname), self._address.port, timeout=60)
        try:
            client.request(method, path, body, {"content-type": "application/json"})
            reply = client.getresponse()
            content = reply.read()
            if reply.status != 200 or (body and json.loads(content)["rewards"] != [self._reward]):
                self.failures.append(f"{path}: {reply.status} {content[:200]!r}")
        except (OSError, HTTPException) as error:
            self.failures.append(f"{path}: {error!r}")
        finally:
            client.close()
        return time.perf_counter() - started

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

"""Many concurrent clients, each on a separate connection, and a well-behaved client that checks its replies."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.servers import LiveServer

__all__ = ["Answer", "Watch", "fetch", "gauges", "peak", "request", "resident", "settled"]


class Answer(NamedTuple):
    """A reply; without one, status 0 and the error's name as the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float = 0.0

    def json(self) -> Any:
        return json.loads(self.body)


def request(body: bytes, path: str = "/v1/score", *headers: str) -> bytes:
    """Return a complete request that closes its connection."""
    usual = ("Host: localhost", "Content-Type: application/json", "Connection: close")
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


async def _fetch(url: str, data: bytes) -> Answer:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        sending = asyncio.ensure_future(_send(writer, data))
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.rstrip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await reader.readexactly(int(headers["content-length"]))
        finally:
            sending.cancel()
        return Answer(int(first.split()[1]), headers, body)
    finally:
        writer.transport.abort()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    try:
        writer.write(data)
        await writer.drain()
    except OSError:  # the reply says why
        pass


def resident(pid: int, name: str = "VmRSS") -> int:
    """Return the resident memory of a process in bytes, or its peak (VmHWM)."""
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def peak(pid: int) -> int:
    return resident(pid, "VmHWM")


def gauges(server: LiveServer) -> dict[str, float]:
    """Return the samples without labels of one scrape."""
    with server.client() as client:
        lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines) if name.isidentifier()}


HELD = ("assay_work_bytes", "assay_queued_bytes", "assay_queued_requests", "assay_batches_unfinished")


def settled(server: LiveServer, seconds: float = 60.0) -> dict[str, float]:
    """Wait until the service holds nothing of its budgets, or for `seconds`; return what it holds then."""
    end = time.monotonic() + seconds
    while True:
        values = gauges(server)
        found = {name: values[name] for name in HELD}
        if not any(found.values()) or time.monotonic() > end:
            return found
        time.sleep(0.1)


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
            self.live.append(self._timed("GET", "/livez", None, self._is_live))
            self.waits.append(self._timed("POST", "/v1/score", self._body, self._is_right))
            self._ended.wait(self._pause)

    def _timed(self, method: str, path: str, body: bytes | None, is_right: Any) -> float:
        started = time.perf_counter()
        client = HTTPConnection(str(self._address.hostname), self._address.port, timeout=60)
        try:
            client.request(method, path, body, {"content-type": "application/json"})
            reply = client.getresponse()
            content = reply.read()
            if not is_right(reply.status, content):
                self.failures.append(f"{path}: {reply.status} {content[:200]!r}")
        except (OSError, HTTPException) as error:
            self.failures.append(f"{path}: {error!r}")
        finally:
            client.close()
        return time.perf_counter() - started

    def _is_live(self, status: int, _content: bytes) -> bool:
        return status == 200

    def _is_right(self, status: int, content: bytes) -> bool:
        return status == 200 and json.loads(content)["rewards"] == [self._reward]

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

"""Sends many small requests from a separate process: `python -m assay.service.bench.load_generator`.

It reads a plan, one line of JSON, from standard input, then a number of requests per line; for each it prints a line
with the result of the burst. Requests are encoded before the clock starts and replies checked after it stops, so that
the generator does as little as possible meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

import orjson
import uvloop

from .measure import cpu_seconds, elapsed

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The requests of bursts, the fields to expect in the reply to each body, and a time limit in seconds."""

    port: int
    server_pid: int
    connections: int
    path: str
    bodies: list[str]
    expected: list[dict[str, Any]]
    seconds: float


class Burst:
    """A number of requests over all connections; each sends the next request when it gets a reply."""

    def __init__(self, requests: list[bytes], count: int) -> None:
        self.requests = requests
        self.numbers = islice(cycle(range(len(requests))), count)
        self.count = count
        self.replies: list[tuple[int, bytes]] = []
        self.finished = asyncio.get_running_loop().create_future()

    def answered(self, number: int, reply: bytes) -> None:
        self.replies.append((number, reply))
        if len(self.replies) == self.count:
            self.finished.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


class Connection(asyncio.Protocol):
    transport: asyncio.Transport
    burst: Burst | None = None
    number: int | None = None
    received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def send_next(self) -> None:
        assert self.burst is not None
        self.number = next(self.burst.numbers, None)
        if self.number is not None:
            self.transport.write(self.burst.requests[self.number])

    def data_received(self, data: bytes) -> None:
        self.received += data
        head = self.received.find(END_OF_HEAD)
        if head < 0 or self.burst is None or self.number is None:
            return
        length = CONTENT_LENGTH.search(self.received, 0, head + 2)
        if length is None:
            self.burst.failed(ConnectionError("a reply without Content-Length"))
            return
        if len(self.received) >= head + len(END_OF_HEAD) + int(length[1]):
            self.burst.answered(self.number, self.received)
            self.received = b""
            self.send_next()

    def connection_lost(self, error: Exception | None) -> None:
        if self.burst is not None:
            self.burst.failed(error or ConnectionError("the server closed a connection"))


def as_request(plan: Plan, body: str) -> bytes:
    content = body.encode()
    head = (
        f"POST {plan.path} HTTP/1.1\r\nHost: 127.0.0.1:{plan.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content


async def measured(plan: Plan, requests: list[bytes], count: int) -> dict[str, Any]:
    """Open the connections, send a request over each, and measure one burst."""
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(Connection, "127.0.0.1", plan.port))[1] for _ in range(plan.connections)
    ]
    try:
        await run(Burst(requests, len(connections)), connections, plan.seconds)
        burst = Burst(requests, count)
        server, client, started = cpu_seconds(plan.server_pid), time.process_time(), time.perf_counter()
        await run(burst, connections, plan.seconds)
        seconds, client = time.perf_counter() - started, time.process_time() - client
        server_seconds = elapsed(server, cpu_seconds(plan.server_pid))
    finally:
        for connection in connections:
            connection.burst = None
            connection.transport.close()
    return {
        "seconds": seconds,
        "cpu_seconds": server_seconds,
        "client_seconds": client,
        "wrong": next((fault for reply in burst.replies if (fault := fault_of(plan, *reply))), None),
    }


async def run(burst: Burst, connections: list[Connection], seconds: float) -> None:
    """Run a burst; raises TimeoutError, or ConnectionError if the server closes a connection."""
    for connection in connections:
        connection.burst = burst
        connection.send_next()
    async with asyncio.timeout(seconds):
        await burst.finished


def fault_of(plan: Plan, number: int, reply: bytes) -> str | None:
    head, _, content = reply.partition(END_OF_HEAD)
    status = head.split(b"\r\n", 1)[0]
    if status.split(b" ")[1:2] != [b"200"]:
        return f"request {number} was answered {status.decode(errors='replace')}"
    fields = orjson.loads(content)
    wrong = [name for name, value in plan.expected[number].items() if fields.get(name) != value]
    return f"the reply to request {number} has wrong {', '.join(wrong)}" if wrong else None


def main() -> None:
    plan = Plan(**orjson.loads(sys.stdin.buffer.readline()))
    requests = [as_request(plan, body) for body in plan.bodies]
    gc.disable()  # a burst is bounded and leaves no reference cycles
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for line in sys.stdin.buffer:
            try:
                outcome = runner.run(measured(plan, requests, int(line)))
            except TimeoutError:
                outcome = {"failed": f"not answered within {plan.seconds:.0f} s"}
            except OSError as error:
                outcome = {"failed": str(error)}
            sys.stdout.buffer.write(orjson.dumps(outcome) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

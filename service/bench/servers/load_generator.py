"""Many small requests at once, from a process of its own: `python -m assay.service.bench.servers.load_generator`.

It takes a plan, one line of JSON, on standard input, and then a number of requests a line; for each of these it
answers with a line that says how the burst went. Requests are ready as bytes before the clock starts, replies are
looked into after it has stopped: the less the generator does meanwhile, the more the figure says about the server.
"""

from __future__ import annotations

import asyncio
import gc
import re
import sys
import time
from typing import Any, NamedTuple

import orjson
import uvloop

from ..cpu_clock import cpu_seconds

__all__ = ["Plan"]

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
END_OF_HEAD = b"\r\n\r\n"


class Plan(NamedTuple):
    """What to send, and what to expect."""

    port: int
    server_pid: int
    connections: int
    path: str
    bodies: list[str]
    expected: list[dict[str, Any]]
    """Fields of the reply to each body, with their values."""
    seconds: float
    """A burst that takes longer fails."""


class Burst:
    """A number of requests, answered over all connections together; each sends its next as soon as it is answered."""

    def __init__(self, requests: list[bytes], count: int) -> None:
        self.requests = requests
        self.left = self.unanswered = count
        self.replies: list[tuple[int, bytes]] = []
        self.finished = asyncio.get_running_loop().create_future()

    def draw(self) -> int | None:
        """The number of the next request; None where there is none left."""
        if self.left == 0:
            return None
        self.left -= 1
        return self.left % len(self.requests)

    def answered(self, number: int, reply: bytes) -> None:
        self.replies.append((number, reply))
        self.unanswered -= 1
        if self.unanswered == 0:
            self.finished.set_result(None)

    def failed(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)


class Connection(asyncio.Protocol):
    """One connection that is kept open, with one request on its way."""

    transport: asyncio.Transport
    burst: Burst | None = None
    number: int | None = None
    received = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def take_part(self, burst: Burst) -> None:
        self.burst = burst
        self.send_next()

    def send_next(self) -> None:
        assert self.burst is not None
        self.number = self.burst.draw()
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
    """One burst; the connections are open and have had a reply each before it begins."""
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
        server_after = cpu_seconds(plan.server_pid)
    finally:
        for connection in connections:
            connection.burst = None
            connection.transport.close()
    known = server is not None and server_after is not None
    return {
        "seconds": seconds,
        "cpu_seconds": server_after - server if known else None,  # type: ignore[operator]
        "client_seconds": client,
        "wrong": next((fault for reply in burst.replies if (fault := fault_of(plan, *reply))), None),
    }


async def run(burst: Burst, connections: list[Connection], seconds: float) -> None:
    """Raises TimeoutError, and ConnectionError where the server closes a connection."""
    for connection in connections:
        connection.take_part(burst)
    async with asyncio.timeout(seconds):
        await burst.finished


def fault_of(plan: Plan, number: int, reply: bytes) -> str | None:
    """What is wrong with the reply to a request; None where nothing is."""
    head, _, content = reply.partition(END_OF_HEAD)
    status = head.split(b"\r\n", 1)[0]
    if status.split(b" ")[1:2] != [b"200"]:
        return f"request {number} was answered {status.decode(errors='replace')}"
    fields = orjson.loads(content)
    wrong = [name for name, value in plan.expected[number].items() if fields.get(name) != value]
    return f"the reply to request {number} has other {', '.join(wrong)}" if wrong else None


def main() -> None:
    plan = Plan(**orjson.loads(sys.stdin.buffer.readline()))
    requests = [as_request(plan, body) for body in plan.bodies]
    gc.disable()  # a burst is bounded, and leaves no cycles behind
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

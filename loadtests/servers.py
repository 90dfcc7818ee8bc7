"""The servers that are measured, each in a separate process, and the connections that measure them."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import re
import selectors
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import cycle
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple, Self

from ..service.config import PREFIX, ServerSettings

READY_WITHIN = 600.0  # seconds; enough for a machine without cached kernels
ANSWERED_WITHIN = 120.0
MAX_REPLY = 4 << 20  # bytes: a server may be anybody's
SETTLING = 0.02  # time after a reply until the server is idle: it updates metrics and frees memory
SERVE = ("-c", "from assay.service.cli import start; start()", "serve", "--drain-seconds", "0")

READ_ONLY, CONSTANT = "/read", b"{}"
"""The route of `bare_server` that only reads the body, and its reply."""

END_OF_HEAD = b"\r\n\r\n"
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
RECEIVED_BYTES = 1 << 18


class BenchmarkError(RuntimeError):
    """A benchmark could not run."""


class WrongAnswerError(BenchmarkError):
    """A benchmark returned a wrong result, which makes its time meaningless."""


class BenchRun(NamedTuple):
    """The time of one run over the responses of a benchmark, in seconds."""

    seconds: float
    cpu_seconds: float | None = None  # CPU time of the process that does the work; None if unknown
    client_seconds: float | None = None  # CPU time of the load generator; None without one


def elapsed(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU seconds of all threads of a process, user and system; None if unsupported.

    Uses POSIX `clock_getcpuclockid` (nanoseconds): the ticks of /proc/PID/stat (10 ms) are too coarse.
    """
    clock = ctypes.c_int()
    try:
        failed = ctypes.CDLL(None).clock_getcpuclockid(ctypes.c_int(pid), ctypes.byref(clock))
        return None if failed else time.clock_gettime(clock.value)
    except (AttributeError, OSError, TypeError):
        return None


def descendants(pid: int) -> list[int]:
    """Return the processes below a process, as far as /proc shows them."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parent = int(path.read_bytes().rpartition(b")")[2].split()[1])
            children.setdefault(parent, []).append(int(path.parent.name))
    pids = [pid]
    for each in pids:
        pids += children.get(each, [])
    return pids[1:]


class ServerProcess:
    """Runs `python ARGUMENTS --port PORT` on a free loopback port, without the caller's settings."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> Self:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        variables = os.environ.items()
        environment = {name: v for name, v in variables if name == "ASSAY_CACHE_DIR" or not name.startswith(PREFIX)}
        command = [sys.executable, *self._arguments, "--port", str(self.port)]
        self._process = subprocess.Popen(command, env=environment)
        self.pid = self._process.pid
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the server and of the processes below it, once they are idle."""
        time.sleep(SETTLING)
        each = [cpu_seconds(pid) for pid in (self.pid, *descendants(self.pid))]
        return None if each[0] is None else sum(filter(None, each))

    def _wait(self) -> None:
        started = time.monotonic()
        while time.monotonic() - started < READY_WITHIN:
            if self._process.poll() is not None:
                raise BenchmarkError(f"the server ended with exit code {self._process.returncode}")
            try:
                fetch(f"{self.address}/readyz")
                return
            except OSError:
                time.sleep(0.05)
        raise BenchmarkError(f"the server was not ready within {READY_WITHIN:.0f} s")


def service(*flags: str) -> ServerProcess:
    return ServerProcess(*SERVE, "--log-level", "warning", *flags)


def bare_server() -> ServerProcess:
    """Return a server with the server settings of the service that replies with a constant, READ_ONLY unparsed."""
    return ServerProcess("-m", f"{__package__}.servers")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str, key: str | None = None) -> bytes:
    """Return the body of a reply, from the address itself, not by way of a proxy; raise OSError."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(url, headers=headers), timeout=ANSWERED_WITHIN) as reply:
        content: bytes = reply.read(MAX_REPLY + 1)
    if len(content) > MAX_REPLY:
        raise OSError(f"{url} sends more than {MAX_REPLY:,} bytes")
    return content


class BenchConnection:
    """A persistent connection with at most one request in flight."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), ANSWERED_WITHIN)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = 0
        self.received = bytearray()

    def send(self, number: int, request: bytes) -> None:
        self.number, self.received = number, bytearray()
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Receive what has arrived; return whether the reply is complete."""
        received = self.socket.recv(RECEIVED_BYTES)
        if not received:
            raise ConnectionError("the server closed a connection")
        self.received += received
        head = self.received.find(END_OF_HEAD)
        if head < 0:
            return False
        length = CONTENT_LENGTH.search(self.received, 0, head + 2)
        if length is None:
            raise ConnectionError("a reply without Content-Length")
        return len(self.received) >= head + len(END_OF_HEAD) + int(length[1])


def as_request(port: int, path: str, body: bytes | None = None, media_type: str = "application/json") -> bytes:
    content = b"" if body is None else body
    head = (
        f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: {media_type}\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    return head.encode("ascii") + content


def exchange(connections: Sequence[BenchConnection], requests: Sequence[bytes], count: int) -> list[bytearray]:
    """Send `count` requests in turn, each on the first connection that is free; return their replies in order."""
    replies = [bytearray()] * count
    numbers = iter(range(count))
    with selectors.DefaultSelector() as selector:

        def send_next(connection: BenchConnection) -> None:
            number = next(numbers, None)
            if number is not None:
                connection.send(number, requests[number % len(requests)])

        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            send_next(connection)
        missing = count
        while missing:
            ready = selector.select(ANSWERED_WITHIN)
            if not ready:
                raise TimeoutError(f"not answered within {ANSWERED_WITHIN:.0f} s")
            for key, _ in ready:
                if key.data.receive():
                    replies[key.data.number] = key.data.received
                    missing -= 1
                    send_next(key.data)
    return replies


@contextmanager
def connected(port: int, number: int) -> Iterator[list[BenchConnection]]:
    """Yield connections that the server has accepted."""
    connections: list[BenchConnection] = []
    try:
        connections.extend(BenchConnection(port) for _ in range(number))
        exchange(connections, [as_request(port, "/readyz")], number)
        yield connections
    finally:
        for connection in connections:
            connection.socket.close()


def timed_exchange(
    server: ServerProcess, requests: Sequence[bytes], count: int, connections: int
) -> tuple[list[bytearray], BenchRun]:
    """Return the bodies of the replies and the time of all; raises BenchmarkError, also for a status other than 200.

    Requests are encoded before the clock starts and replies checked after it stops, so that this process does as little
    as possible meanwhile.
    """
    gc.disable()
    try:
        with connected(server.port, connections) as open_connections:
            server_before, client_before = server.cpu_seconds(), time.process_time()
            started = time.perf_counter()
            replies = exchange(open_connections, requests, count)
            seconds = time.perf_counter() - started
            client_seconds = time.process_time() - client_before
            server_seconds = elapsed(server_before, server.cpu_seconds())
    except OSError as error:
        raise BenchmarkError(f"the server did not answer: {error}") from error
    finally:
        gc.enable()
    bodies = [body_of(reply, f"request {number}") for number, reply in enumerate(replies)]
    # With one connection, client and server work in turns: the client's share of the time says nothing.
    return bodies, BenchRun(seconds, server_seconds, client_seconds if connections > 1 else None)


class Task(NamedTuple):
    """Requests that one client process sends in turn, on some connections to a server on this machine."""

    port: int
    requests: Sequence[bytes]
    number: int
    connections: int


class Sent(NamedTuple):
    """The replies to a client's requests, when they began and ended on the machine's clock, and its CPU seconds."""

    replies: list[bytearray]
    began: float
    ended: float
    cpu_seconds: float


class Clients:
    """Processes that put load on servers together: one would be the bottleneck of several workers."""

    def __init__(self, number: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit the kernels' threads
        self._pipes, self._processes = [], []
        for _ in range(number):
            ours, theirs = context.Pipe()
            process = context.Process(target=send_tasks, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.terminate()
            process.join()

    def send(
        self, ports: Sequence[int], requests: Sequence[bytes], count: int, clients: int, connections: int
    ) -> list[Sent]:
        """Send `count` requests by so many processes, which take turns in the ports; raise BenchmarkError."""
        pipes = self._pipes[:clients]
        for number, (pipe, port) in enumerate(zip(pipes, cycle(ports), strict=False)):
            share = count * (number + 1) // clients - count * number // clients
            pipe.send(Task(port, requests, share, connections // clients))
        for pipe in pipes:
            answer(pipe)  # it is connected
        for pipe in pipes:
            pipe.send(None)
        return [answer(pipe) for pipe in pipes]


def answer(pipe: Connection) -> Sent:
    """Return what a client has sent; raise BenchmarkError if it failed."""
    try:
        message = pipe.recv()
    except EOFError:
        raise BenchmarkError("a client process has ended") from None
    if isinstance(message, OSError):
        raise BenchmarkError(f"the server did not answer: {message}")
    sent: Sent = message
    return sent


def send_tasks(pipe: Connection) -> None:
    """Run what `Clients` starts, until its end of the pipe is closed."""
    gc.disable()
    with suppress(EOFError, KeyboardInterrupt, BrokenPipeError):
        while True:
            task: Task = pipe.recv()
            try:
                with connected(task.port, task.connections) as connections:
                    pipe.send(None)
                    pipe.recv()
                    began, cpu_before = time.perf_counter(), time.process_time()
                    replies = exchange(connections, task.requests, task.number)
                    pipe.send(Sent(replies, began, time.perf_counter(), time.process_time() - cpu_before))
            except OSError as error:
                pipe.send(error)


def body_of(reply: bytearray, name: str) -> bytearray:
    head, _, content = reply.partition(END_OF_HEAD)
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split(" ")[1:2] != ["200"]:
        raise WrongAnswerError(f"{name} was answered {status}")
    return content


def serve_bare(port: int) -> None:
    """Run what `bare_server` starts."""
    import orjson
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from ..service.http.process.server import uvicorn_config
    from ..service.http.process.sockets import listen

    async def decode(request: Request) -> Response:
        document = orjson.loads(await request.body())
        return Response(b'{"responses":%d}' % len(document["responses"]), media_type="application/json")

    async def read(request: Request) -> Response:
        await request.body()
        return Response(CONSTANT, media_type="application/json")

    async def ready(_request: Request) -> Response:
        return Response()

    settings = ServerSettings(port=port)
    routes = [Route("/v1/score", decode, methods=["POST"]), Route(READ_ONLY, read, methods=["POST"])]
    app = Starlette(routes=[*routes, Route("/readyz", ready)])
    listener = listen(settings)
    try:
        uvicorn.Server(uvicorn_config(app, settings)).run(sockets=[listener.socket])
    finally:
        listener.close()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):  # Ctrl-C goes to every process of the command
        serve_bare(int(sys.argv[-1]))

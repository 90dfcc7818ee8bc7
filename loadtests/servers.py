"""The servers that are measured, each in a separate process, and the connections that measure them."""

from __future__ import annotations

import ctypes
import gc
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
from pathlib import Path
from typing import IO, Any, NamedTuple, Self, TypeVar

import orjson

from ..service.config import PREFIX, ServerSettings

READY_WITHIN = 600.0  # seconds; enough for a machine without cached kernels
ANSWERED_WITHIN = 120.0
MAX_REPLY = 4 << 20  # bytes: a server may be anybody's
SETTLING = 0.02  # time after a reply until the server is idle: it updates metrics and frees memory
SERVE = ("-c", "from assay.service.cli import start; start()", "serve", "--drain-seconds", "0")

READ_ONLY, CONSTANT = "/read", b"{}"
"""The route of `bare_server` that only reads the body, and its reply."""

CLIENT = "client"
"""The argument of a process of `Clients`."""

END_OF_HEAD = b"\r\n\r\n"
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
RECEIVED_BYTES = 1 << 18

Reply = TypeVar("Reply", bytes, bytearray)


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
        variables = os.environ.items()
        environment = {name: v for name, v in variables if name == "ASSAY_CACHE_DIR" or not name.startswith(PREFIX)}
        with held_port() as self.port:
            self.address = f"http://127.0.0.1:{self.port}"
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


@contextmanager
def held_port() -> Iterator[int]:
    """Yield a free port that, on Linux, no process gets by chance meanwhile, and any that names it can listen on."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        port = int(held.getsockname()[1])
        if sys.platform != "linux":  # elsewhere nobody else could bind it
            held.close()
        yield port


def free_port() -> int:
    with held_port() as port:
        return port


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


class Sent(NamedTuple):
    """The replies to a client's requests, when they began and ended on the machine's clock, and its CPU seconds."""

    replies: list[bytes]
    began: float
    ended: float
    cpu_seconds: float


class Clients:
    """Processes that put load on servers together: one would be the bottleneck of several workers."""

    def __init__(self, number: int) -> None:
        command = [sys.executable, "-m", f"{__package__}.servers", CLIENT]
        pipe = subprocess.PIPE
        self._processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(number)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(BrokenPipeError):
                process.communicate()

    def send(
        self, ports: Sequence[int], requests: Sequence[bytes], count: int, clients: int, connections: int
    ) -> list[Sent]:
        """Send `count` requests by so many processes, which take turns in the ports; raise BenchmarkError."""
        processes = self._processes[:clients]
        for number, (process, port) in enumerate(zip(processes, cycle(ports), strict=False)):
            share = count * (number + 1) // clients - count * number // clients
            write(process.stdin, requests, port=port, number=share, connections=connections // clients)
        for process in processes:
            answer(process)  # it is connected
        for process in processes:
            write(process.stdin)
        return [answer(process) for process in processes]


def write(stream: IO[bytes] | None, texts: Sequence[bytes | bytearray] = (), **values: Any) -> None:
    """Write values and texts to a process of `Clients`, or for `read` here."""
    assert stream is not None
    stream.write(orjson.dumps(values | {"lengths": [*map(len, texts)]}) + b"\n")
    stream.writelines(texts)
    stream.flush()


def read(stream: IO[bytes] | None) -> tuple[dict[str, Any], list[bytes]]:
    """Return what `write` has written; raise EOFError."""
    assert stream is not None
    line = stream.readline()
    if not line:
        raise EOFError
    values = orjson.loads(line)
    return values, [stream.read(length) for length in values.pop("lengths")]


def answer(process: subprocess.Popen[bytes]) -> Sent:
    """Return what a client has sent; raise BenchmarkError if it failed."""
    try:
        values, replies = read(process.stdout)
    except EOFError:
        raise BenchmarkError("a client process has ended") from None
    if "error" in values:
        raise BenchmarkError(f"the server did not answer: {values['error']}")
    return Sent(replies, **values)


def send_tasks(tasks: IO[bytes], results: IO[bytes]) -> None:
    """Run what `Clients` starts, until nothing more comes."""
    gc.disable()
    with suppress(EOFError, BrokenPipeError):
        while True:
            task, requests = read(tasks)
            try:
                with connected(task["port"], task["connections"]) as connections:
                    write(results, began=0.0, ended=0.0, cpu_seconds=0.0)
                    read(tasks)
                    began, cpu_before = time.perf_counter(), time.process_time()
                    replies = exchange(connections, requests, task["number"])
                    ended, cpu = time.perf_counter(), time.process_time() - cpu_before
                write(results, replies, began=began, ended=ended, cpu_seconds=cpu)
            except OSError as error:
                write(results, error=str(error))


def body_of(reply: Reply, name: str) -> Reply:
    head, _, content = reply.partition(END_OF_HEAD)
    status = head.split(b"\r\n", 1)[0].decode(errors="replace")
    if status.split(" ")[1:2] != ["200"]:
        raise WrongAnswerError(f"{name} was answered {status}")
    return content


def serve_bare(port: int) -> None:
    """Run what `bare_server` starts."""
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
        if sys.argv[-1] == CLIENT:
            send_tasks(sys.stdin.buffer, sys.stdout.buffer)
        else:
            serve_bare(int(sys.argv[-1]))

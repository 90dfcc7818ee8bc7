"""A small HTTP server on loopback that fails on request, and otherwise replies with predictable rewards.

The reward of a response is its length / 1000; a reference that contains `BROKEN` gets status 422, as from the service.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from assay_client.tasks import components_of

CONFIG_ID = "0123456789abcdef"
POSITIONS = ("start", "end", "orc_start", "orc_end")


class Request(NamedTuple):
    """A received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    moment: float

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.body)


Act = Callable[[socket.socket, Request], bool]
"""Replies to a request; returns whether the connection may be reused."""


def reward_of(response: str) -> float:
    return len(response) / 1000


def scores(document: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a request."""
    responses = document["responses"]
    reply: dict[str, Any] = {
        "rewards": [reward_of(response) for response in responses],
        "reasons": ["ok"] * len(responses),
        "config_id": CONFIG_ID,
        "signature": "SCORE|v:0",
    }
    if "components" in document.get("include", ()):
        reply["components"] = dict.fromkeys(components_of(document.get("task", "score")), [1.0] * len(responses))
    if "steps" in document.get("include", ()):
        reply["steps"] = list(map(steps_of, responses))
        reply["alternative"] = list(range(len(responses)))
    return reply


def steps_of(response: str) -> list[dict[str, Any]]:
    """Return one step for each 10 characters after the first 20."""
    spans = [(k - 20, k - 11, k, k + 10) for k in range(20, len(response) - 9, 10)]
    return [
        dict(zip(POSITIONS, span, strict=True)) | {"coverage": 1.0, "reference": k, "value": 0.5 * k}
        for k, span in enumerate(spans)
    ]


def http(status: int, body: bytes, headers: dict[str, str] | None = None, length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def answer(connection: socket.socket, request: Request) -> bool:
    """Reply as the service would."""
    code, reply = 200, {}
    if request.method == "POST":
        references = request.document["references"]
        broken = [k for k, reference in enumerate(references) if "BROKEN" in json.dumps(reference)]
        code, reply = (422, problem_of(broken)) if broken else (200, scores(request.document))
    echo = {"X-Request-ID": request.headers.get("x-request-id", "-")}
    connection.sendall(http(code, json.dumps(reply).encode(), echo))
    return True


def problem_of(broken: list[int]) -> dict[str, Any]:
    """Return the problem document that names the references with these numbers, at most the first 100."""
    errors = [{"path": f"references[{k}]", "reason": "bad_step_json", "detail": "no JSON"} for k in broken[:100]]
    return {"detail": "Nothing was scored.", "errors": errors, "error_count": len(broken)}


def replying(reply: Callable[[Request], bytes], reusable: bool = True) -> Act:
    """Reply with the bytes that a function returns for the request."""

    def act(connection: socket.socket, request: Request) -> bool:
        connection.sendall(reply(request))
        return reusable

    return act


def raw(reply: bytes) -> Act:
    """Reply with these bytes, then close."""
    return replying(lambda _: reply, reusable=False)


def status(code: int, **headers: str) -> Act:
    """Reply with a problem document."""
    body = json.dumps({"title": f"Problem {code}", "status": code, "detail": f"detail of {code}"}).encode()
    reply = http(code, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return replying(lambda _: reply)


def document(changed: Callable[[dict[str, Any]], Any]) -> Act:
    """Reply with status 200 and a modified document."""
    return replying(lambda request: http(200, json.dumps(changed(scores(request.document))).encode()))


def reset(connection: socket.socket, request: Request) -> bool:
    """Reset the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def close(connection: socket.socket, request: Request) -> bool:
    """Close the connection without a reply."""
    return False


def late(seconds: float) -> Act:
    """Reply after a delay, unless the client closes the connection first."""

    def act(connection: socket.socket, request: Request) -> bool:
        left, _, _ = select.select([connection], [], [], seconds)
        return not left and answer(connection, request)

    return act


def held(released: threading.Event) -> Act:
    """Reply once the test releases the reply, or after half a minute."""

    def act(connection: socket.socket, request: Request) -> bool:
        released.wait(30)
        return answer(connection, request)

    return act


def truncated(connection: socket.socket, request: Request) -> bool:
    """Reply with half a body."""
    body = json.dumps(scores(request.document)).encode()
    connection.sendall(http(200, body[: len(body) // 2], length=len(body)))
    return False


class FaultServer:
    """Serves until the end of its context: `script` handles the next requests, `otherwise` all others."""

    def __init__(self, path: str | None = None) -> None:
        self.script: list[Act] = []
        self.otherwise: Act = answer
        self.requests: list[Request] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        if path is None:
            self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
            self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(path)
            self._listener.listen(512)
            self.url = f"unix:{path}"
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> FaultServer:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        with self._lock:
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            with self._lock:
                self._open.add(connection)
            thread = threading.Thread(target=self._serve, args=(connection,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while True:
                request = read_request(stream)
                if request is None:
                    break
                with self._lock:
                    self.requests.append(request)
                    act = self.script.pop(0) if self.script else self.otherwise
                if not act(connection, request):
                    break
        with self._lock:
            self._open.discard(connection)


def read_request(stream: Any) -> Request | None:
    first = stream.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    headers: dict[str, str] = {}
    while line := stream.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(first[0], first[1], headers, body, time.monotonic())

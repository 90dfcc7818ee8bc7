"""A raw TCP connection to a server, for requests that HTTP libraries do not allow."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvicorn

from assay.service.config import ServerSettings
from assay.service.http.process.server import uvicorn_config
from tests.http.samples import REQUEST

BODY = json.dumps(REQUEST).encode()


class Reply(NamedTuple):
    """One raw reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """Sends raw bytes, and reads replies with a Content-Length."""

    def __init__(self, url: str, timeout: float = 30) -> None:
        address = urlsplit(url)
        self.socket = socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=timeout)
        self._rest = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_until_closed(self, data: bytes, most: int, pause: float = 0) -> int:
        """Send `data` repeatedly until the server closes the connection; return the bytes sent, at most `most`."""
        sent = 0
        try:
            while sent < most:
                sent += self.socket.send(data)
                time.sleep(pause)
        except OSError:
            pass
        return sent

    def reply(self) -> Reply:
        """Return the next reply; raise EOFError if the connection ends without one."""
        while b"\r\n\r\n" not in self._rest:
            self._receive()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", 0))
        while len(self._rest) < length:
            self._receive()
        body, self._rest = self._rest[:length], self._rest[length:]
        return Reply(int(first.split()[1]), headers, body)

    def _receive(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            raise EOFError
        self._rest += data

    def is_closed(self) -> bool:
        """Return True if the server closes the connection before the timeout."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def post(body: bytes = BODY, *headers: str, path: str = "/v1/score") -> bytes:
    """Return the bytes of a request."""
    return head(f"Content-Length: {len(body)}", *headers, path=path) + body


def head(*headers: str, path: str = "/v1/score") -> bytes:
    """Return the bytes of a request's head."""
    return "\r\n".join((f"POST {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode("latin-1")


def chunked(pieces: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    """Return a body in chunked encoding."""
    return (
        b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces) + b"0\r\n" + trailer + b"\r\n"
    )


async def open_connection(app: Any, rejected: list[str]) -> tuple[Any, socket.socket]:
    """Return the server's side of a connection in this event loop, and the client's socket."""
    config = uvicorn_config(app, ServerSettings(), rejected.append)
    config.load()
    server = uvicorn.Server(config)
    protocol: Any = config.http_protocol_class
    protocol = protocol(config, server.server_state, {}, asyncio.get_running_loop())
    ours, theirs = socket.socketpair()
    await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, theirs)
    return protocol, ours

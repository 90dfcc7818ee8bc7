"""HTTP/1.1 over one connection.

`http.client` reads a head with the parser of e-mail, which costs more than the rest of a small call, and tolerates what
must not be scored (docs/decisions/client-without-dependencies.md).
"""

from __future__ import annotations

import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..results import HttpReply
from .addresses import Address
from .waiting import READ, WRITE, Waiting

STATUS_LINE = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\0\r\n]*)?")
HEADER = re.compile(r"([-!#$%&'*+.^_`|~\w]+):([^\0\r\n]*)", re.ASCII)
CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
LENGTH = re.compile(r"[0-9]{1,18}")
TLS_ALERT = b"\x15\x03"
MAX_HEAD = 65_536
"""Bytes of a response's head, and of a chunk-size line."""

MAX_BODY = 1 << 30
"""Bytes of a response's body: 65,536 responses with all columns need some 20 MiB."""

CHUNK_BYTES = 1 << 18
"""Bytes that are sent at once."""

RECEIVED_BYTES = 1 << 16
BLOCKED = BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError
"""What sockets that do not block raise in place of waiting."""


class TransportFault(Exception):
    """A failed exchange.

    stale: a pooled connection was closed before any byte arrived.
    final: the URL is wrong, so that a retry would not help.
    """

    def __init__(self, detail: str, stale: bool = False, final: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.stale = stale
        self.final = final


Target = tuple[int, Any]
"""Family and socket address of one address of a service."""


class HttpExchange(NamedTuple):
    """One request to send, whose response must be complete within `seconds` of a connection being free.

    If its host has several addresses that have not failed recently, each gets an equal share of the time of the call.
    """

    address: Address
    head: bytes
    body: bytes
    seconds: float
    deadline: float
    """End of the call on the monotonic clock: until then it waits for a free connection."""


def request_head(method: str, address: Address, route: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{method} {address.prefix}{route} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Accept: application/json", "", ""]).encode("latin-1")


class HttpConnection:
    """An open connection, whose socket does not block, and the reader of its replies."""

    def __init__(self, sock: socket.socket, waiting: Waiting, target: Target, targets: Sequence[Target]) -> None:
        self.sock = sock
        self.target = target
        self.targets = targets
        """All addresses of its service, among them its own."""
        self.reused = False
        self.started = False
        self._waiting = waiting
        self._received = bytearray()
        self._unsent: deque[bytes | memoryview] = deque()
        self._end = 0.0
        self._is_broken = False

    async def exchange(self, request: HttpExchange, end: float) -> tuple[HttpReply, bool]:
        """Return the reply by `end`, and whether the connection is reusable; raise TransportFault or its cause."""
        body, self._end = memoryview(request.body), end
        self._unsent.append(b"".join((request.head, body[:CHUNK_BYTES])))
        self._unsent.extend(body[k : k + CHUNK_BYTES] for k in range(CHUNK_BYTES, len(body), CHUNK_BYTES))
        self._send()
        reply, keep_alive = await self._read_reply()
        return reply, keep_alive and not self._received and not self._unsent and not self._is_broken

    def _send(self) -> None:
        """Send what is left of the request, as far as the socket takes it now."""
        try:
            while self._unsent:
                sent = self.sock.send(self._unsent[0])
                piece = self._unsent.popleft()
                if sent < len(piece):
                    self._unsent.appendleft(memoryview(piece)[sent:])
        except BLOCKED:
            pass
        except OSError:  # a service that rejects a request may have replied before it has read all of it
            self._is_broken = True
            self._unsent.clear()

    async def _receive(self) -> bytes:
        """Return the next bytes, empty at the end of the stream; meanwhile, send what is left of the request."""
        while True:
            if not isinstance(self.sock, ssl.SSLSocket) or not self.sock.pending():
                await self._waiting.until(self.sock, READ | WRITE if self._unsent else READ, self._end)
            self._send()
            try:
                return self.sock.recv(RECEIVED_BYTES)
            except BLOCKED:
                pass

    def is_idle(self) -> bool:
        """Return whether it has neither been closed by its peer nor received bytes since its last exchange."""
        try:
            self.sock.recv(1)
        except BLOCKED:
            return True
        except (OSError, ValueError):
            pass
        return False

    def close(self) -> None:
        self.sock.close()

    async def _read_reply(self) -> tuple[HttpReply, bool]:
        """Return the next reply, and whether the connection may carry another exchange (RFC 9112, section 6.3)."""
        status = 0
        while status < 200:  # the final response follows interim ones
            keep_alive, status, headers = await self._read_head()
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if length is not None:  # proxies that disagree about the end would let one reply pass for another
                raise TransportFault("the reply has both Content-Length and Transfer-Encoding")
            if coding.lower() != "chunked":
                raise TransportFault("the reply has an unknown transfer coding")
            body = await self._read_chunks()
        elif status in (204, 304):
            body = b""
        elif length is None:
            keep_alive, body = False, await self._read_to_end()
        elif LENGTH.fullmatch(length):
            body = await self._read_exactly(check_length(int(length)))
        else:
            raise TransportFault("the reply has a malformed Content-Length")
        return HttpReply(status, headers, body), keep_alive and not self._received

    async def _read_head(self) -> tuple[bool, int, dict[str, str]]:
        """Return whether the connection stays open, the status, and the headers by their names in lower case."""
        await self._fill(4)
        if self._received.startswith(TLS_ALERT):
            raise TransportFault("the port speaks TLS: use https:// instead of http://", final=True)
        if not self._received.startswith(b"HTTP"):  # a service of another protocol may wait for more
            raise TransportFault("the reply is not HTTP")
        first, *lines = (await self._read_until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status_line = STATUS_LINE.fullmatch(first)
        if status_line is None:
            raise TransportFault("the reply is not HTTP/1.1")
        headers: dict[str, str] = {}
        for line in lines:
            header = HEADER.fullmatch(line)
            if header is None:
                raise TransportFault("the reply has a malformed header")
            name, value = header[1].lower(), header[2].strip(" \t")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        keep_alive = status_line[1] == "1" and "close" not in headers.get("connection", "").lower()
        return keep_alive, int(status_line[2]), headers

    async def _read_chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = CHUNK_SIZE.fullmatch(await self._read_until(b"\r\n"))
            if size is None:
                raise TransportFault("the reply has a malformed chunk")
            length = int(size[1], 16)
            if not length:
                break
            check_length(len(body) + length)
            body += await self._read_exactly(length)
            if await self._read_exactly(2) != b"\r\n":
                raise TransportFault("a chunk of the reply is longer than announced")
        while await self._read_until(b"\r\n"):
            pass  # trailers
        return bytes(body)

    async def _read_to_end(self) -> bytes:
        while await self._receive_more():
            check_length(len(self._received))
        return self._take(check_length(len(self._received)))

    async def _read_until(self, end: bytes) -> bytes:
        """Return what precedes `end`, and skip both."""
        while (pos := self._received.find(end, 0, MAX_HEAD)) < 0:
            if len(self._received) > MAX_HEAD:
                raise TransportFault(f"the head of the reply exceeds {MAX_HEAD} bytes")
            await self._fill(len(self._received) + 1)
        return self._take(pos + len(end))[:pos]

    async def _read_exactly(self, length: int) -> bytes:
        await self._fill(length)
        return self._take(length)

    async def _fill(self, length: int) -> None:
        while len(self._received) < length:
            if not await self._receive_more():
                missing = "in the middle of" if self.started else "without"
                raise TransportFault(f"the connection was closed {missing} a reply")

    async def _receive_more(self) -> bool:
        received = await self._receive()
        self.started = self.started or bool(received)
        self._received += received
        return bool(received)

    def _take(self, length: int) -> bytes:
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken


def check_length(length: int) -> int:
    if length > MAX_BODY:
        raise TransportFault(f"the body of the reply exceeds {MAX_BODY} bytes")
    return length

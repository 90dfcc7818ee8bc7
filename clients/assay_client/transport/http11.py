"""HTTP/1.1 without any input or output: bytes of a request, and a reader that is fed the bytes of its response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum

from ..replies import Reply
from .addresses import Address

__all__ = ["Fault", "ResponseReader", "request_head"]

CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,16}")

TLS_ALERT = b"\x15\x03"

MAX_HEAD = 65_536
"""Bytes of a response's head, and of a line that announces a chunk."""

MAX_BODY = 1 << 30
"""Bytes of a response's body: 65,536 responses with everything included need some 20 MiB."""


class Fault(Exception):
    """An exchange that did not come to a whole, well-formed response; it may be tried again.

    `stale` says that a connection from the pool had been closed before anything came back on it.
    """

    def __init__(self, what: str, stale: bool = False) -> None:
        super().__init__(what)
        self.what = what
        self.stale = stale


def request_head(method: str, address: Address, route: str, headers: Mapping[str, str], length: int) -> bytes:
    """Everything before the body."""
    lines = [f"{method} {address.prefix}{route} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Accept: application/json", "", ""]).encode("latin-1")


class Awaited(Enum):
    """What the reader waits for."""

    HEAD = 1
    BODY = 2
    CHUNK_SIZE = 3
    CHUNK = 4
    TRAILER = 5
    END_OF_STREAM = 6
    NOTHING = 7


class ResponseReader:
    """Reads one response to a request that was no HEAD. Feed it bytes until `done`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body = bytearray()
        self._awaited = Awaited.HEAD
        self._left = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keep_alive = False
        self.begun = False
        """Whether anything has come."""

    @property
    def done(self) -> bool:
        return self._awaited is Awaited.NOTHING

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another exchange: all that came belonged to this response."""
        return self.done and self._keep_alive and not self._buffer

    @property
    def reply(self) -> Reply:
        """The response, once it is done."""
        assert self.done
        return Reply(self._status, self._headers, bytes(self._body))

    def feed(self, data: bytes) -> None:
        """Take what came next, empty where the stream has ended; raises Fault."""
        if not data:
            self._end()
            return
        self.begun = True
        self._buffer += data
        while not self.done and self._step():
            pass

    def _end(self) -> None:
        if self._awaited is Awaited.END_OF_STREAM:
            self._awaited = Awaited.NOTHING
        elif not self.done:
            missing = "in the middle of a reply" if self.begun else "without a reply"
            raise Fault(f"the connection was closed {missing}")

    def _step(self) -> bool:
        """Go on by one piece; false where more bytes are needed for that."""
        if self._awaited in (Awaited.BODY, Awaited.CHUNK):
            return self._take_body()
        if self._awaited is Awaited.END_OF_STREAM:
            self._keep(len(self._buffer))
            return False
        if self._awaited is Awaited.HEAD and self._buffer.startswith(TLS_ALERT):
            raise Fault("the port speaks TLS: https:// is meant, in place of http://")
        end = b"\r\n\r\n" if self._awaited is Awaited.HEAD else b"\r\n"
        at = self._buffer.find(end)
        if at < 0 or at > MAX_HEAD:
            if len(self._buffer) > MAX_HEAD:
                raise Fault("a head of endless length came back")
            return False
        line = bytes(self._buffer[:at])
        del self._buffer[: at + len(end)]
        if self._awaited is Awaited.HEAD:
            self._read_head(line)
        elif self._awaited is Awaited.CHUNK_SIZE:
            self._read_chunk_size(line)
        elif not line:  # the line that ends the trailers
            self._awaited = Awaited.NOTHING
        return True

    def _take_body(self) -> bool:
        taken = min(self._left, len(self._buffer))
        self._keep(taken)
        self._left -= taken
        if self._left:
            return False
        if self._awaited is Awaited.BODY:
            self._awaited = Awaited.NOTHING
            return True
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise Fault("a chunk of another length than announced came back")
        del self._buffer[:2]
        self._awaited = Awaited.CHUNK_SIZE
        return True

    def _keep(self, length: int) -> None:
        if len(self._body) + length > MAX_BODY:
            raise Fault("a body of endless length came back")
        self._body += self._buffer[:length]
        del self._buffer[:length]

    def _read_chunk_size(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        if not CHUNK_SIZE.fullmatch(digits):
            raise Fault("a malformed chunk came back")
        self._left = int(digits, 16)
        self._awaited = Awaited.CHUNK if self._left else Awaited.TRAILER

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(code) != 3 or not code.isdigit():
            raise Fault("what came back is not HTTP")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Fault("a malformed header came back")
            name = name.lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        status = int(code)
        if status >= 200:  # else interim: the response itself follows
            self._status, self._headers = status, headers
            self._keep_alive = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
            self._read_framing(headers)

    def _read_framing(self, headers: dict[str, str]) -> None:
        """How the body ends (RFC 9112 section 6.3)."""
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise Fault("a body in an unknown transfer coding came back")
            self._awaited = Awaited.CHUNK_SIZE
        elif self._status in (204, 304):
            self._awaited = Awaited.NOTHING
        elif length is None:
            self._keep_alive = False
            self._awaited = Awaited.END_OF_STREAM
        elif not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise Fault("a malformed Content-Length came back")
        else:
            self._left = int(length)
            self._awaited = Awaited.BODY if self._left else Awaited.NOTHING

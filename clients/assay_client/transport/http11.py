"""HTTP/1.1 without I/O: the head of a request, and an incremental parser of its response."""

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
"""Bytes of a response's head, and of a chunk-size line."""

MAX_BODY = 1 << 30
"""Bytes of a response's body: 65,536 responses with all columns need some 20 MiB."""


class Fault(Exception):
    """An exchange without a complete, well-formed response; it may be retried.

    `stale` means that a pooled connection was closed before any byte of the response arrived.
    """

    def __init__(self, detail: str, stale: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.stale = stale


def request_head(method: str, address: Address, route: str, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of a request whose body has `length` bytes."""
    lines = [f"{method} {address.prefix}{route} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Accept: application/json", "", ""]).encode("latin-1")


class Expected(Enum):
    """What the reader expects next."""

    HEAD = 1
    BODY = 2
    CHUNK_SIZE = 3
    CHUNK = 4
    TRAILER = 5
    END_OF_STREAM = 6
    NOTHING = 7


class ResponseReader:
    """Incremental parser of one response (not to a HEAD request). Feed it bytes until `done`."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._body = bytearray()
        self._expected = Expected.HEAD
        self._left = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._keep_alive = False
        self.started = False
        """Whether any byte has arrived."""

    @property
    def done(self) -> bool:
        return self._expected is Expected.NOTHING

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another exchange: keep-alive, and no bytes after this response."""
        return self.done and self._keep_alive and not self._buffer

    @property
    def reply(self) -> Reply:
        """The complete response; only valid once `done`."""
        assert self.done
        return Reply(self._status, self._headers, bytes(self._body))

    def feed(self, data: bytes) -> None:
        """Parse the next bytes, empty at the end of the stream; raise Fault."""
        if not data:
            self._end()
            return
        self.started = True
        self._buffer += data
        while not self.done and self._step():
            pass

    def _end(self) -> None:
        if self._expected is Expected.END_OF_STREAM:
            self._expected = Expected.NOTHING
        elif not self.done:
            missing = "in the middle of a reply" if self.started else "without a reply"
            raise Fault(f"the connection was closed {missing}")

    def _step(self) -> bool:
        """Parse one element; return False if that needs more bytes."""
        if self._expected in (Expected.BODY, Expected.CHUNK):
            return self._read_body()
        if self._expected is Expected.END_OF_STREAM:
            self._append(len(self._buffer))
            return False
        if self._expected is Expected.HEAD and self._buffer.startswith(TLS_ALERT):
            raise Fault("the port speaks TLS: use https:// instead of http://")
        end = b"\r\n\r\n" if self._expected is Expected.HEAD else b"\r\n"
        pos = self._buffer.find(end)
        if pos < 0 or pos > MAX_HEAD:
            if len(self._buffer) > MAX_HEAD:
                raise Fault(f"the head of the reply exceeds {MAX_HEAD} bytes")
            return False
        line = bytes(self._buffer[:pos])
        del self._buffer[: pos + len(end)]
        if self._expected is Expected.HEAD:
            self._read_head(line)
        elif self._expected is Expected.CHUNK_SIZE:
            self._read_chunk_size(line)
        elif not line:  # the empty line after the trailers
            self._expected = Expected.NOTHING
        return True

    def _read_body(self) -> bool:
        length = min(self._left, len(self._buffer))
        self._append(length)
        self._left -= length
        if self._left:
            return False
        if self._expected is Expected.BODY:
            self._expected = Expected.NOTHING
            return True
        if len(self._buffer) < 2:
            return False
        if self._buffer[:2] != b"\r\n":
            raise Fault("a chunk of the reply is longer than announced")
        del self._buffer[:2]
        self._expected = Expected.CHUNK_SIZE
        return True

    def _append(self, length: int) -> None:
        if len(self._body) + length > MAX_BODY:
            raise Fault(f"the body of the reply exceeds {MAX_BODY} bytes")
        self._body += self._buffer[:length]
        del self._buffer[:length]

    def _read_chunk_size(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip()
        if not CHUNK_SIZE.fullmatch(digits):
            raise Fault("the reply has a malformed chunk")
        self._left = int(digits, 16)
        self._expected = Expected.CHUNK if self._left else Expected.TRAILER

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        code = rest[:3]
        if version not in ("HTTP/1.1", "HTTP/1.0") or len(code) != 3 or not code.isdigit():
            raise Fault("the reply is not HTTP")
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise Fault("the reply has a malformed header")
            name = name.lower()
            headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
        status = int(code)
        if status >= 200:  # else interim: the final response follows
            self._status, self._headers = status, headers
            self._keep_alive = version == "HTTP/1.1" and "close" not in headers.get("connection", "").lower()
            self._read_framing(headers)

    def _read_framing(self, headers: dict[str, str]) -> None:
        """Find out where the body ends (RFC 9112 section 6.3)."""
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        if coding is not None:
            if coding.lower() != "chunked":
                raise Fault("the reply has an unknown transfer coding")
            self._expected = Expected.CHUNK_SIZE
        elif self._status in (204, 304):
            self._expected = Expected.NOTHING
        elif length is None:
            self._keep_alive = False
            self._expected = Expected.END_OF_STREAM
        elif not (length.isascii() and length.isdigit()) or len(length) > 18:
            raise Fault("the reply has a malformed Content-Length")
        else:
            self._left = int(length)
            self._expected = Expected.BODY if self._left else Expected.NOTHING

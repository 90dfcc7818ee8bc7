"""HTTP/1.1 for both transports: the head of a request, and strict checks of what `http.client` reads of its response."""

from __future__ import annotations

from collections.abc import Mapping
from http.client import BadStatusLine, HTTPException, HTTPResponse, IncompleteRead, RemoteDisconnected
from typing import IO, NamedTuple, Protocol

from ..replies import Reply
from .addresses import Address

__all__ = [
    "CHUNK_BYTES",
    "MAX_BODY",
    "MAX_HEAD",
    "Exchange",
    "Fault",
    "check_length",
    "closed_early",
    "http_fault",
    "read_head",
    "reply_of",
    "request_head",
]

TLS_ALERT = "\x15\x03"
SPEAKS_TLS = "the port speaks TLS: use https:// instead of http://"

MAX_HEAD = 65_536
"""Bytes of a line of a response's head, and of a chunk-size line; all of the head on event loops."""

MAX_BODY = 1 << 30
"""Bytes of a response's body: 65,536 responses with all columns need some 20 MiB."""

CHUNK_BYTES = 1 << 18
"""Bytes read at once."""


class Fault(Exception):
    """An exchange without a complete, well-formed response; it may be retried.

    `stale` means that a pooled connection was closed before any byte of the response arrived.
    """

    def __init__(self, detail: str, stale: bool = False) -> None:
        super().__init__(detail)
        self.detail = detail
        self.stale = stale


class Exchange(NamedTuple):
    """One request to send, whose response must be complete within `seconds` of a connection being free."""

    address: Address
    head: bytes
    body: bytes
    seconds: float
    deadline: float
    """End of the call on the monotonic clock: until then it waits for a free connection."""


class Stream(Protocol):
    """What `HTTPResponse` needs of a socket."""

    def makefile(self, mode: str, /) -> IO[bytes]: ...


def request_head(method: str, address: Address, route: str, headers: Mapping[str, str], length: int) -> bytes:
    """Return the head of a request whose body has `length` bytes."""
    lines = [f"{method} {address.prefix}{route} HTTP/1.1", f"Host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "Accept: application/json", "", ""]).encode("latin-1")


def read_head(stream: Stream) -> HTTPResponse:
    """Read one head of a response, which may be an interim one; raise Fault, HTTPException or OSError.

    `HTTPResponse` ignores what it cannot read of a head, and would then take what follows for the body.
    """
    response = HTTPResponse(stream)  # type: ignore[arg-type]
    response.begin()
    if response.headers.defects:
        raise Fault("the reply has a malformed header")
    coding, length = (", ".join(response.headers.get_all(name, [])) for name in ("transfer-encoding", "content-length"))
    if coding and not response.chunked:
        raise Fault("the reply has an unknown transfer coding")
    if length and not coding and not (length.isascii() and length.isdigit()):
        raise Fault("the reply has a malformed Content-Length")
    check_length(response.length or 0)
    return response


def check_length(length: int) -> None:
    """Raise Fault for a body of more bytes than any reply has."""
    if length > MAX_BODY:
        raise Fault(f"the body of the reply exceeds {MAX_BODY} bytes")


def reply_of(response: HTTPResponse, body: bytes) -> Reply:
    """Return the complete reply."""
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        name = name.lower()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Reply(response.status, headers, body)


def closed_early(received: bytes) -> Fault:
    """Return the Fault of a connection that was closed after these bytes of a response."""
    if received.startswith(TLS_ALERT.encode()):
        return Fault(SPEAKS_TLS)
    return Fault(f"the connection was closed {'in the middle of' if received else 'without'} a reply")


def http_fault(error: HTTPException) -> str:
    """Return what is wrong with a response, in the words of an error message."""
    if isinstance(error, RemoteDisconnected):
        return "the connection was closed without a reply"
    if isinstance(error, BadStatusLine):
        return SPEAKS_TLS if str(error.line).startswith(TLS_ALERT) else "the reply is not HTTP"
    if isinstance(error, IncompleteRead):
        return "the reply has an incomplete or malformed chunk"
    return f"the reply has a malformed head ({str(error) or type(error).__name__})"

"""Headers and errors of HTTP: media types, content encodings, `Server-Timing`, problem documents."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from pydantic import BaseModel, ConfigDict

from ...errors import Issue

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
ARROW = b"application/vnd.apache.arrow.stream"

STAGES = ("decode", "score", "encode", "queue")


class StageTimes:
    """Seconds of each stage that ran: call `start`, then `decoded`, `scored` and `encoded` at the ends of stages."""

    __slots__ = (*STAGES, "_since")

    def __init__(self) -> None:
        self.decode = self.score = self.encode = self.queue = self._since = 0.0

    def start(self) -> None:
        self._since = perf_counter()

    def decoded(self) -> None:
        now = perf_counter()
        self.decode, self._since = now - self._since, now

    def scored(self) -> None:
        now = perf_counter()
        self.score, self._since = now - self._since, now

    def encoded(self) -> None:
        self.encode = perf_counter() - self._since

    def add(self, other: StageTimes) -> None:
        self.decode += other.decode
        self.score += other.score
        self.encode += other.encode

    def ran(self) -> list[str]:
        return [stage for stage in STAGES if getattr(self, stage)]

    def header(self) -> list[tuple[bytes, bytes]]:
        """Return `Server-Timing`, the milliseconds of the stages that ran; no header if none did."""
        if self.encode and not self.queue:  # the usual reply of a route that scores
            milliseconds = self.decode * 1e3, self.score * 1e3, self.encode * 1e3
            return [(b"server-timing", b"decode;dur=%.3f, score;dur=%.3f, encode;dur=%.3f" % milliseconds)]
        durations = [f"{stage};dur={getattr(self, stage) * 1e3:.3f}" for stage in self.ran()]
        return [(b"server-timing", ", ".join(durations).encode("ascii"))] if durations else []


MAX_ERRORS = 100
"""Maximum number of issues in one document; its `error_count` counts all issues."""

TRANSIENT = (429, 503)
RETRY_SOON = ((b"retry-after", b"1"),)


class Kind(NamedTuple):
    """One kind of error: its status, its title, and advice for the client."""

    status: int
    title: str
    advice: str


KINDS = {
    "not-json": Kind(400, "Not JSON", "Send one JSON text (RFC 8259) in UTF-8, without NaN and lone surrogates."),
    "not-arrow": Kind(400, "Not Arrow", "Send one Arrow IPC stream, as pyarrow's `ipc.new_stream` writes it."),
    "bad-encoding": Kind(400, "Invalid compression", "Send one complete gzip or zstd stream."),
    "unauthorized": Kind(
        401, "Key missing or wrong", "Send it as a bearer token, or as the password of Basic authentication."
    ),
    "cross-site": Kind(403, "Cross-site request", "Call the service from a program, or from its own pages."),
    "not-found": Kind(404, "Not found", "GET /openapi.json lists every path."),
    "method-not-allowed": Kind(405, "Method not allowed", "The header Allow lists the methods of this path."),
    "too-slow": Kind(408, "Too slow", "Send head and body faster; `head_seconds` and `body_seconds` are settings."),
    "too-large": Kind(413, "Over a limit", "Send several smaller requests; GET /v1/config has the limits."),
    "unsupported-media-type": Kind(415, "Unsupported media type", "Send `Content-Type: application/json` in UTF-8."),
    "unsupported-encoding": Kind(415, "Unsupported Content-Encoding", "Send the body as it is, or in gzip or zstd."),
    "wrong-host": Kind(421, "Wrong host", "Use localhost, or add the host to `allowed_hosts`."),
    "invalid-request": Kind(422, "Invalid request", "`errors` lists every field to fix; nothing was scored."),
    "over-capacity": Kind(429, "Over capacity", "Send the same request again after `Retry-After` seconds."),
    "memory-full": Kind(429, "Memory full", "Send the same request again after `Retry-After` seconds."),
    "head-too-large": Kind(431, "Head too large", "Send fewer or shorter headers; `max_head_bytes` is a setting."),
    "internal": Kind(500, "Internal error", "Nothing was scored. Report it with the request id."),
    "out-of-memory": Kind(503, "Out of memory", "Send it again after `Retry-After` seconds, or in smaller requests."),
    "not-ready": Kind(503, "Not ready", "Send the same request again after `Retry-After` seconds."),
    "deadline": Kind(504, "Deadline exceeded", "Send smaller requests, or allow more time."),
}
"""Every kind of error; `type` of its document is `/docs#problem-NAME`."""


class Problem(Exception):
    """An error reply that quotes no text, by default with `Retry-After: 1` for kinds that pass by themselves."""

    def __init__(
        self,
        kind: str,
        detail: str,
        issues: Sequence[Issue] = (),
        headers: Sequence[tuple[bytes, bytes]] = (),
        error_count: int | None = None,
    ) -> None:
        super().__init__(kind)
        self.kind = kind
        self.detail = detail
        self.issues = issues
        self.headers = tuple(headers) or (RETRY_SOON if self.status in TRANSIENT else ())
        self.error_count = len(issues) if error_count is None else error_count

    def copy(self) -> Problem:
        """Return the problem without the traceback of this one."""
        return Problem(self.kind, self.detail, self.issues, self.headers, self.error_count)

    @property
    def listed(self) -> list[Issue]:
        return [issue._replace(path=truncate(issue.path)) for issue in self.issues[:MAX_ERRORS]]

    @property
    def status(self) -> int:
        return KINDS[self.kind].status

    def document(self, request_id: str) -> bytes:
        """Return the document as bytes, with the id as a URI reference and the first `MAX_ERRORS` issues."""
        return orjson.dumps(
            {
                "type": f"/docs#problem-{self.kind}",
                "title": KINDS[self.kind].title,
                "status": self.status,
                "detail": self.detail,
                "instance": quote(request_id, safe=""),
                "errors": [issue._asdict() for issue in self.listed],
                "error_count": self.error_count,
            }
        )


class Refusal(BaseModel):
    """A problem without headers of its own as JSON, for another process."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: str
    detail: str
    issues: list[Issue]
    error_count: int

    @classmethod
    def of(cls, problem: Problem) -> Refusal:
        return cls(kind=problem.kind, detail=problem.detail, issues=problem.listed, error_count=problem.error_count)

    def problem(self) -> Problem:
        return Problem(self.kind, self.detail, self.issues, error_count=self.error_count)


def invalid_request(issues: Sequence[Issue], error_count: int | None = None) -> Problem:
    """Return the problem of a request with these issues, which may be the first of `error_count`."""
    count = len(issues) if error_count is None else error_count
    errors = "1 error" if count == 1 else f"{count} errors"
    return Problem("invalid-request", f"{errors}; nothing was scored. See `errors`.", issues, error_count=count)


MAX_PATH = 128
"""Maximum characters of a path, which may contain a name of any length from the request."""


def truncate(path: str) -> str:
    return path if len(path) <= MAX_PATH else path[: MAX_PATH - 1] + "…"


SLICE = 1024
"""Compressed bytes per step, which may expand to 1 MiB (gzip) or 32 MiB (zstd) beyond a limit."""

MAX_FRAMES = 1024
"""Maximum gzip members or zstd frames: each costs a decompressor, and may have only a few bytes."""

MAX_WINDOW_BYTES = 1 << 27
"""Maximum window of a zstd frame; `zstd -22 --ultra` uses it."""

MAX_RATIO = 200
"""Maximum compression ratio: gzip reaches 1000, zstd has no limit, rollouts of a single prompt stay below 50."""

MIN_RATIO_BYTES = 1 << 20
"""Decompressed bytes up to which the ratio does not matter."""

ENCODING_NAMES = {b"identity": b"", b"x-gzip": b"gzip"}
DECOMPRESSORS: dict[bytes, Callable[[], Any]] = {b"gzip": lambda: zlib.decompressobj(wbits=31)}
ERRORS: tuple[type[Exception], ...] = (zlib.error,)

try:
    import zstandard
except ImportError:  # an optional extra: without it, zstd is not supported
    pass
else:
    ERRORS = (zlib.error, zstandard.ZstdError)
    DECOMPRESSORS[b"zstd"] = lambda: zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()

ENCODINGS = tuple(name.decode() for name in (*ENCODING_NAMES, *DECOMPRESSORS))


class Body(NamedTuple):
    data: bytes | bytearray
    encoding: bytes
    """`gzip`, `zstd`, or empty."""
    media_type: bytes
    inline: bool
    """True for short uncompressed JSON, which is scored on the event loop."""

    def plain(self, limit: int) -> bytes | bytearray:
        """Return the decompressed body; raise Problem `bad-encoding`, and `too-large` above `limit`."""
        return decompress(self.data, self.encoding, limit)


def media_type_of(content_type: bytes, supported: tuple[bytes, ...] = (JSON, ARROW)) -> bytes:
    """Return the media type of `supported` that the header names.

    A missing header means JSON: many HTTP libraries send none with plain bytes. Raise Problem `unsupported-media-type`
    for any other type, and for JSON that is not in UTF-8.
    """
    if content_type in (JSON, b""):
        return JSON
    kind, *parameters = (part.strip().lower() for part in content_type.split(b";"))
    charsets = {value.strip(b'"') for name, _, value in (p.partition(b"=") for p in parameters) if name == b"charset"}
    if kind not in supported or (kind == JSON and not charsets <= {b"utf-8", b"utf8"}):
        names = ", ".join(name.decode() for name in supported)
        issue = Issue("Content-Type", "unsupported_media_type", f"supported: {names}")
        raise Problem("unsupported-media-type", "The body's media type is not supported here.", [issue])
    return kind


def check_encoding(encoding: bytes) -> bytes:
    """Return the Content-Encoding's canonical name, empty for none; raise Problem if it is not supported."""
    name = encoding.strip().lower()
    name = ENCODING_NAMES.get(name, name)
    if not name or name in DECOMPRESSORS:
        return name
    supported = b", ".join(DECOMPRESSORS).decode()
    issue = Issue("Content-Encoding", "unsupported_encoding", f"supported: {supported}")
    raise Problem("unsupported-encoding", "The body's Content-Encoding is not supported.", [issue])


def decompress(body: bytes | bytearray, encoding: bytes, limit: int) -> bytes | bytearray:
    """Decompress a body with an encoding returned by `check_encoding`.

    Raise Problem `bad-encoding` if the stream is damaged, truncated or followed by other bytes, and `too-large` once it
    exceeds `limit` bytes or `MAX_RATIO` times the body, with at most one step beyond that in memory. (The limits of the
    libraries do not suffice: zstandard ignores `max_output_size` for frames that declare their size.)
    """
    if not encoding:
        return body
    ratio_limit = max(MIN_RATIO_BYTES, MAX_RATIO * len(body))
    whole = bytearray()
    new_stream = DECOMPRESSORS[encoding]
    stream, frames = new_stream(), 1
    view = memoryview(body)
    try:
        for start in range(0, len(view), SLICE):
            piece: bytes | memoryview = view[start : start + SLICE]
            while piece:
                if stream.eof:
                    stream, frames = new_stream(), frames + 1
                whole += stream.decompress(piece)
                piece = stream.unused_data
                if len(whole) > limit:
                    raise too_large(limit)
                if len(whole) > ratio_limit:
                    issue = Issue("body", "too_large", f"more than {MAX_RATIO} times its compressed size")
                    raise Problem("too-large", f"A body may expand to {MAX_RATIO} times its compressed size.", [issue])
                if frames > MAX_FRAMES:
                    raise bad_encoding(f"more than {MAX_FRAMES} frames")
    except ERRORS:
        raise bad_encoding("the compressed stream is damaged") from None
    if not stream.eof:
        raise bad_encoding("the compressed stream ends early")
    return whole


def bad_encoding(detail: str) -> Problem:
    issue = Issue("body", "bad_encoding", detail)
    return Problem("bad-encoding", "The body cannot be decompressed.", [issue])


def too_large(limit: int) -> Problem:
    issue = Issue("body", "too_large", f"more than {limit} bytes")
    return Problem("too-large", f"A body may have {limit} bytes, before and after decompression.", [issue])

"""Media types and content encodings of bodies, and their decompression."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import Issue
from .problems import Problem, too_large

JSON = b"application/json"
PROBLEM_JSON = b"application/problem+json"
ARROW = b"application/vnd.apache.arrow.stream"

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

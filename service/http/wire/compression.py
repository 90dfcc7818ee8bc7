"""The body of a request as it arrived, and its decompression, which counts bytes while they are made."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ...errors import Issue
from .problems import Problem

try:
    import zstandard
except ImportError:  # an optional extra: without it, zstd is an encoding that is not supported
    zstandard = None  # type: ignore[assignment]

__all__ = ["Body", "check_encoding", "decompress", "too_large"]

SLICE = 1024
"""Compressed bytes per step, which can grow to at most 1 MiB (gzip) or 32 MiB (zstd): the overshoot over a limit."""

MAX_FRAMES = 1024
"""Members of a gzip stream or frames of a zstd stream: each costs a decompressor, and may be a few bytes short."""

MAX_WINDOW_BYTES = 1 << 27
"""Bytes that a zstd frame may ask a decompressor to keep; what `zstd -22 --ultra` writes."""

MAX_RATIO = 200
"""Times its compressed size that a body may have: gzip's limit is a thousand, zstd has none, and texts of rollouts that
repeat one prompt stay below fifty."""

RATIO_FREE_BYTES = 1 << 20
"""Decompressed bytes to which no ratio applies."""


class Body(NamedTuple):
    """The body of a request as it arrived, with what the headers say about it. It can be pickled."""

    data: bytes | bytearray
    encoding: bytes
    """`gzip`, `zstd`, or empty."""
    media_type: bytes
    inline: bool
    """True for short JSON without compression, which the event loop's thread may answer."""

    def plain(self, limit: int) -> bytes | bytearray:
        """Return the body without its compression; raise Problem `bad-encoding`, and `too-large` above `limit`."""
        return decompress(self.data, self.encoding, limit)


def check_encoding(encoding: bytes) -> bytes:
    """The Content-Encoding's canonical name, empty for none; raises Problem where it is not supported."""
    name = encoding.strip().lower()
    if name in (b"", b"identity"):
        return b""
    if name in (b"gzip", b"x-gzip"):
        return b"gzip"
    if name == b"zstd" and zstandard is not None:
        return name
    issue = Issue("Content-Encoding", "unsupported_encoding", f"supported: {', '.join(supported_encodings())}")
    raise Problem("unsupported-encoding", "The body's Content-Encoding is not supported.", [issue])


def supported_encodings() -> list[str]:
    return ["gzip"] if zstandard is None else ["gzip", "zstd"]


def decompress(body: bytes | bytearray, encoding: bytes, limit: int) -> bytes | bytearray:
    """Undo a Content-Encoding of `check_encoding`.

    Raises Problem `bad-encoding` where the stream is damaged, cut short or followed by something else, and
    `too-large` before more than `limit` bytes, or `MAX_RATIO` times the body's, and one step's growth have been held.
    Neither library's own limit is relied upon: zstandard ignores `max_output_size` for frames that declare their size.
    """
    if not encoding:
        return body
    by_ratio = max(RATIO_FREE_BYTES, MAX_RATIO * len(body))
    whole = bytearray()
    fresh = decompressor_of(encoding)
    stream, frames = fresh(), 1
    view = memoryview(body)
    try:
        for start in range(0, len(view), SLICE):
            piece: bytes | memoryview = view[start : start + SLICE]
            while piece:
                if stream.eof:
                    stream, frames = fresh(), frames + 1
                whole += stream.decompress(piece)
                piece = stream.unused_data
                if len(whole) > min(limit, by_ratio):
                    raise too_large(limit) if len(whole) > limit else expands_too_much()
                if frames > MAX_FRAMES:
                    raise bad_encoding(f"more than {MAX_FRAMES} frames")
    except decompression_errors():
        raise bad_encoding("the compressed stream is damaged") from None
    if not stream.eof:
        raise bad_encoding("the compressed stream ends early")
    return whole


def decompressor_of(encoding: bytes) -> Callable[[], Any]:
    if encoding == b"gzip":
        return lambda: zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj


def decompression_errors() -> tuple[type[Exception], ...]:
    """Return the types of the errors that decompressors raise."""
    return (zlib.error,) if zstandard is None else (zlib.error, zstandard.ZstdError)


def bad_encoding(detail: str) -> Problem:
    issue = Issue("body", "bad_encoding", detail)
    return Problem("bad-encoding", "The body's compression cannot be undone.", [issue])


def too_large(limit: int) -> Problem:
    issue = Issue("body", "too_large", f"more than {limit} bytes")
    return Problem("too-large", f"A body may have {limit} bytes, before and after decompression.", [issue])


def expands_too_much() -> Problem:
    issue = Issue("body", "too_large", f"more than {MAX_RATIO} times its compressed size")
    return Problem("too-large", f"A body may expand to {MAX_RATIO} times its compressed size.", [issue])

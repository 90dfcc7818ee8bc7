"""The request's body: counted while it is read, and counted again while it is decompressed."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar

from ...errors import Issue
from ..wire.problems import Problem
from .deadline import Deadline, past
from .exchange import CONNECTION, ClientGone, Exchange

try:
    import zstandard
except ImportError:  # an optional extra: without it, zstd is an encoding that is not supported
    zstandard = None  # type: ignore[assignment]

__all__ = ["check_encoding", "decompress", "read_body"]

T = TypeVar("T")

SLICE = 1024
"""Compressed bytes per step, which can grow to at most 1 MiB (gzip) or 32 MiB (zstd): the overshoot over a limit."""

UNCOMPRESSED = (b"", b"identity")

MAX_FRAMES = 1024
"""Members of a gzip stream or frames of a zstd stream: each costs a decompressor, and may be a few bytes short."""

MAX_WINDOW_BYTES = 1 << 27
"""Bytes that a zstd frame may ask a decompressor to keep; what `zstd -22 --ultra` writes."""

MAX_RATIO = 200
"""Times its compressed size that a body may have: gzip's limit is a thousand, zstd has none, and texts of rollouts that
repeat one prompt stay below fifty."""

RATIO_FREE_BYTES = 1 << 20
"""Decompressed bytes to which no ratio applies."""

COMPRESSED = 4
"""What a compressed byte is charged: texts of protocols shrink to a third or a quarter. What grows more than that is
bounded by the threads, each of which decompresses one body at a time."""


async def read_body(exchange: Exchange, limit: int, deadline: Deadline) -> bytes | bytearray:
    """The body as it came, not yet decompressed, once there is room for it.

    Raises Problem `too-large` as soon as it is known to be longer than `limit` bytes, and Problem `over-capacity`: both
    before the first byte where Content-Length says so; Problem `too-slow`, Problem `deadline`, and ClientGone. The rest
    of a refused body is left to the server, which discards it: clients would lose the reply if the connection were
    closed under them.
    """
    length = exchange.header(b"content-length")
    declared = int(length) if length.isdigit() else 0
    if declared > limit:
        raise too_large(limit)
    admission = exchange.service.admission
    if declared >= admission.short:
        exchange.short = False
        charge = declared * COMPRESSED if exchange.header(b"content-encoding") not in UNCOMPRESSED else declared
        await admission.admit(exchange, charge, deadline)
        connection = exchange.scope.get(CONNECTION)
        whole = None if connection is None else connection.collect(exchange.send_message)
        if whole is not None:
            left = exchange.service.config.server.body_seconds
            checked(await in_time(exchange.receive_message(), left, deadline), 0, limit)
            return whole
    receiving: Any = exchange.receive_message()
    try:
        waits_for = receiving.send(None)
    except StopIteration as arrived:
        message = arrived.value
        if not message.get("more_body", False) and len(message.get("body", b"")) < admission.short:
            piece = checked(message, 0, limit)  # as for most small bodies: no clock is needed
            if not admission.turns.take():
                await admission.turns.wait(exchange.times)
            return piece
        return await receive_all(exchange, limit, deadline, message)
    try:
        return await receive_all(exchange, limit, deadline, resumed(receiving, waits_for))
    finally:
        receiving.close()


@coroutine
def resumed(begun: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Go on with a coroutine that has been started by hand and waits for a future."""
    yield waits_for
    return (yield from begun)


async def receive_all(exchange: Exchange, limit: int, deadline: Deadline, first: Any) -> bytes | bytearray:
    """The whole body: `first` is its first message, or what has to be awaited for it."""
    admission = exchange.service.admission
    left = exchange.service.config.server.body_seconds
    by_length = not exchange.short
    whole = bytearray()
    message = first if type(first) is dict else None
    while True:
        if message is None:
            started = perf_counter()
            message = await in_time(first or exchange.receive_message(), left, deadline)
            left -= perf_counter() - started
        piece = checked(message, len(whole), limit)
        if not by_length:
            await admission.arrived(exchange, len(piece), len(whole) + len(piece), deadline)
        if not message.get("more_body", False):
            if exchange.short and not admission.turns.take():
                await admission.turns.wait(exchange.times)
            if not whole:
                return piece
            whole += piece
            return whole
        whole += piece
        first = message = None


async def in_time(message: Any, left: float, deadline: Deadline) -> dict[str, Any]:
    """The next message, if it comes before the deadline and while there is time `left` for the body."""
    until_deadline = deadline.left
    try:
        async with asyncio.timeout(min(left, until_deadline)):
            return await message
    except TimeoutError:
        raise (too_slow() if left < until_deadline else past()) from None


def checked(message: dict[str, Any], before: int, limit: int) -> bytes:
    """The bytes of a message that follows `before` bytes."""
    if message["type"] == "http.disconnect":
        raise ClientGone
    piece = message.get("body", b"")
    if before + len(piece) > limit:
        raise too_large(limit)
    return piece


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
    except damages():
        raise bad_encoding("the compressed stream is damaged") from None
    if not stream.eof:
        raise bad_encoding("the compressed stream ends early")
    return whole


def decompressor_of(encoding: bytes) -> Callable[[], Any]:
    if encoding == b"gzip":
        return lambda: zlib.decompressobj(wbits=31)
    return zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj


def damages() -> tuple[type[Exception], ...]:
    """What the decompressors raise."""
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


def too_slow() -> Problem:
    """The connection ends with this reply: what else the client sends slowly is of no use to anyone."""
    return Problem("too-slow", "The body did not arrive in time.", headers=[(b"connection", b"close")])

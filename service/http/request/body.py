"""Reads the body of a request, admitted by its declared size or counted while it arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from time import perf_counter
from types import coroutine
from typing import Any, TypeVar

from ..wire.compression import too_large
from ..wire.problems import Problem
from .admission import Admission
from .deadline import Deadline, deadline_exceeded
from .exchange import CONNECTION, ClientGone, Exchange

__all__ = ["BodyReader"]

T = TypeVar("T")

COMPRESSED = 4
"""Bytes charged per compressed byte: protocols compress to a third or a quarter. Bodies that expand more are bounded by
the number of threads, each of which decompresses one body at a time."""


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads bodies of at most `limit` bytes within `body_seconds`."""

    admission: Admission
    body_seconds: float
    limit: int

    async def read(self, exchange: Exchange, encoding: bytes) -> bytes | bytearray:
        """Return the body, still compressed, once it is admitted.

        Raise Problem `too-large` and `over-capacity` as soon as possible, before the first byte if Content-Length says
        so; Problem `too-slow`, Problem `deadline`, and ClientGone. The server discards the rest of a refused body:
        closing the connection instead could lose the reply.
        """
        length = exchange.header(b"content-length")
        declared = int(length) if length.isdigit() else 0
        if declared > self.limit:
            raise too_large(self.limit)
        admission = self.admission
        if declared >= admission.short:
            exchange.short = False
            await admission.admit(exchange, declared * COMPRESSED if encoding else declared)
            connection = exchange.scope.get(CONNECTION)
            whole = None if connection is None else connection.collect(exchange.send_message)
            if whole is not None:
                message = await in_time(exchange.receive_message(), self.body_seconds, exchange.deadline)
                body_chunk(message, 0, self.limit)
                return whole
        receiving: Any = exchange.receive_message()
        try:
            waits_for = receiving.send(None)
        except StopIteration as arrived:
            message = arrived.value
            if not message.get("more_body", False) and len(message.get("body", b"")) < admission.short:
                chunk = body_chunk(message, 0, self.limit)  # the common case of small bodies: needs no timer
                if not admission.loop_budget.take():
                    await admission.loop_budget.wait(exchange.times)
                return chunk
            return await self._read_chunks(exchange, message)
        try:
            return await self._read_chunks(exchange, resumed(receiving, waits_for))
        finally:
            receiving.close()

    async def _read_chunks(self, exchange: Exchange, first: Any) -> bytes | bytearray:
        """Return the whole body: `first` is its first message, or an awaitable of it."""
        admission, left = self.admission, self.body_seconds
        by_length = not exchange.short
        whole = bytearray()
        message = first if type(first) is dict else None
        while True:
            if message is None:
                started = perf_counter()
                message = await in_time(first or exchange.receive_message(), left, exchange.deadline)
                left -= perf_counter() - started
            chunk = body_chunk(message, len(whole), self.limit)
            if not by_length:
                await admission.charge_chunk(exchange, len(chunk), len(whole) + len(chunk))
            if not message.get("more_body", False):
                if exchange.short and not admission.loop_budget.take():
                    await admission.loop_budget.wait(exchange.times)
                if not whole:
                    return chunk
                whole += chunk
                return whole
            whole += chunk
            first = message = None


@coroutine
def resumed(begun: Coroutine[Any, Any, T], waits_for: Any) -> Generator[Any, Any, T]:
    """Continue a coroutine that was started with `send` and waits for a future."""
    yield waits_for
    return (yield from begun)


async def in_time(message: Any, left: float, deadline: Deadline) -> dict[str, Any]:
    """Return the next message if it arrives before the deadline and within `left` seconds."""
    until_deadline = deadline.left
    try:
        async with asyncio.timeout(min(left, until_deadline)):
            return await message
    except TimeoutError:
        raise (too_slow() if left < until_deadline else deadline_exceeded()) from None


def body_chunk(message: dict[str, Any], before: int, limit: int) -> bytes:
    """Return the bytes of a message that follows `before` bytes of the body."""
    if message["type"] == "http.disconnect":
        raise ClientGone
    chunk = message.get("body", b"")
    if before + len(chunk) > limit:
        raise too_large(limit)
    return chunk


def too_slow() -> Problem:
    """Return the problem of a slow body; the connection is closed after this reply."""
    return Problem("too-slow", "The body did not arrive in time.", headers=[(b"connection", b"close")])

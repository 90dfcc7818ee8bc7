"""The two ways to wait for sockets: in the calling thread, or on its event loop.

All else of an exchange is written once, as coroutines over sockets that do not block.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import selectors
import socket
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any, TypeVar

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)  # poll needs no descriptor of its own

T = TypeVar("T")


class Waiting:
    async def ready(self, events: Mapping[socket.socket, int], seconds: float) -> list[socket.socket]:
        """Return sockets that can be read or written as their events say; none if that takes longer."""
        raise NotImplementedError

    async def settled(self, future: concurrent.futures.Future[Any], seconds: float) -> None:
        """Wait for the result of a future, but not longer."""
        raise NotImplementedError

    async def until(self, sock: socket.socket, event: int, end: float) -> None:
        """Wait until a socket is ready; raise TimeoutError at `end`."""
        seconds = end - monotonic()
        if seconds <= 0 or not await self.ready({sock: event}, seconds):
            raise TimeoutError


class Blocking(Waiting):
    """Blocks the calling thread: coroutines that wait in no other way never suspend, see `completed`."""

    async def ready(self, events: Mapping[socket.socket, int], seconds: float) -> list[socket.socket]:
        return select(events, seconds)

    async def settled(self, future: concurrent.futures.Future[Any], seconds: float) -> None:
        concurrent.futures.wait([future], seconds)


class OnLoop(Waiting):
    """Suspends the calling coroutine."""

    async def ready(self, events: Mapping[socket.socket, int], seconds: float) -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[list[socket.socket]] = loop.create_future()

        def settle(*ready: socket.socket) -> None:
            if not result.done():
                result.set_result(list(ready))

        timer = loop.call_later(seconds, settle)
        try:
            for sock, event in events.items():
                if event & READ:
                    loop.add_reader(sock.fileno(), settle, sock)
                if event & WRITE:
                    loop.add_writer(sock.fileno(), settle, sock)
            return await result
        except NotImplementedError:  # the default loop of Windows watches no sockets
            return await loop.run_in_executor(None, select, events, seconds)
        finally:
            timer.cancel()
            with suppress(NotImplementedError, RuntimeError):  # or the loop has ended
                for sock in events:
                    loop.remove_reader(sock.fileno())
                    loop.remove_writer(sock.fileno())

    async def settled(self, future: concurrent.futures.Future[Any], seconds: float) -> None:
        settled = asyncio.wrap_future(future)
        settled.add_done_callback(lambda done: done.cancelled() or done.exception())  # callers read `future`
        await asyncio.wait({settled}, timeout=seconds)  # `wait_for` can lose a cancellation before Python 3.12


def select(events: Mapping[socket.socket, int], seconds: float) -> list[socket.socket]:
    with Selector() as selector:
        for sock, event in events.items():
            selector.register(sock, event)
        ready: list[Any] = selector.select(seconds)
        return [key.fileobj for key, _ in ready]


def completed(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, as none of `Client` does."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a coroutine of the synchronous client has suspended")

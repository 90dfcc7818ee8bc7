"""TCP connections to names of several addresses, some of which may answer nothing.

The addresses are tried one after the other, each a moment after the one before it or as soon as that has failed, and
the first that answers is used: "happy eyeballs", RFC 8305. So an address that swallows packets costs that moment.
"""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
from itertools import zip_longest
from time import monotonic
from typing import Any, NamedTuple

__all__ = ["STAGGER", "connected_socket", "connected_socket_async"]

STAGGER = 0.25
"""Seconds from one address to the next, as RFC 8305 recommends."""

UNDER_WAY = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


class Target(NamedTuple):
    """One address of a name."""

    family: int
    where: Any


def connected_socket(host: str, port: int, seconds: float) -> socket.socket:
    """A connected socket with the time that is left; raises OSError, and TimeoutError after `seconds`."""
    end = monotonic() + seconds
    targets = interleaved(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    failure = OSError("the name has no address")
    with selectors.DefaultSelector() as opening:
        try:
            while targets or opening.get_map():
                if targets:
                    try:
                        opening.register(begun(targets.pop(0)), selectors.EVENT_WRITE)
                    except OSError as error:
                        failure = error
                        continue
                left = end - monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in opening.select(min(STAGGER, left) if targets else left):
                    sock: socket.socket = key.fileobj  # type: ignore[assignment]
                    opening.unregister(sock)
                    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not number:
                        sock.settimeout(max(end - monotonic(), 0.001))
                        return sock
                    failure = OSError(number, os.strerror(number))
                    sock.close()
            raise failure
        finally:
            for key in opening.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]


async def connected_socket_async(host: str, port: int) -> socket.socket:
    """A connected non-blocking socket; raises OSError. Names are looked up in a thread, not on the loop."""
    loop = asyncio.get_running_loop()
    targets = interleaved(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    failure: BaseException = OSError("the name has no address")
    opening: set[asyncio.Task[socket.socket]] = set()
    winner = None
    try:
        while targets or opening:
            if targets:
                opening.add(loop.create_task(arrived(targets.pop(0))))
            patience = STAGGER if targets else None
            done, _ = await asyncio.wait(opening, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                opening.discard(task)
                error = task.exception()
                if error is None:
                    winner = task.result()
                    return winner
                failure = error
        raise failure
    finally:
        for task in opening:
            task.add_done_callback(close_late)
            task.cancel()
        try:
            if opening:
                await asyncio.wait(opening)
        except BaseException:  # cancelled: nobody gets the winner
            if winner is not None:
                winner.close()
            raise


def close_late(task: asyncio.Task[socket.socket]) -> None:
    """Close a socket that has arrived although another one was taken."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def interleaved(found: list[Any]) -> list[Target]:
    """The addresses that a resolver gave, in its order, but families in turn."""
    by_family: dict[int, list[Target]] = {}
    for family, _, _, _, where in found:
        by_family.setdefault(family, []).append(Target(family, where))
    return [target for turn in zip_longest(*by_family.values()) for target in turn if target is not None]


def begun(target: Target) -> socket.socket:
    """A socket on its way to this address; raises OSError."""
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        number = sock.connect_ex(target.where)
        if number not in UNDER_WAY:
            raise OSError(number, os.strerror(number))
    except BaseException:
        sock.close()
        raise
    return sock


async def arrived(target: Target) -> socket.socket:
    """A socket that has arrived at this address; raises OSError."""
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target.where)
    except BaseException:
        sock.close()
        raise
    return sock

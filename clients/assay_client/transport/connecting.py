"""TCP connections to host names with several addresses, some of which may not answer (Happy Eyeballs, RFC 8305).

Each address is tried a short delay after the previous one, or as soon as that one has failed; the first connection
wins. An address that drops packets therefore costs only the delay.
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

__all__ = ["ATTEMPT_DELAY", "connected_socket", "connected_socket_async"]

ATTEMPT_DELAY = 0.25
"""Seconds between attempts, as RFC 8305 recommends."""

IN_PROGRESS = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


class Target(NamedTuple):
    """One address of a host name."""

    family: int
    sockaddr: Any


def connected_socket(host: str, port: int, seconds: float) -> socket.socket:
    """Connect within `seconds`, of which the rest becomes the timeout of the socket; raise OSError or TimeoutError."""
    end = monotonic() + seconds
    targets = interleave_families(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    failure = OSError("the host name has no address")
    with selectors.DefaultSelector() as opening:
        try:
            while targets or opening.get_map():
                if targets:
                    try:
                        opening.register(start_connecting(targets.pop(0)), selectors.EVENT_WRITE)
                    except OSError as error:
                        failure = error
                        continue
                left = end - monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in opening.select(min(ATTEMPT_DELAY, left) if targets else left):
                    sock: socket.socket = key.fileobj  # type: ignore[assignment]
                    opening.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        sock.settimeout(max(end - monotonic(), 0.001))
                        return sock
                    failure = OSError(code, os.strerror(code))
                    sock.close()
            raise failure
        finally:
            for key in opening.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]


async def connected_socket_async(host: str, port: int) -> socket.socket:
    """Connect a non-blocking socket; raise OSError. Names are resolved in a thread, not on the loop."""
    loop = asyncio.get_running_loop()
    targets = interleave_families(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    failure: BaseException = OSError("the host name has no address")
    opening: set[asyncio.Task[socket.socket]] = set()
    winner = None
    try:
        while targets or opening:
            if targets:
                opening.add(loop.create_task(connect(targets.pop(0))))
            delay = ATTEMPT_DELAY if targets else None
            done, _ = await asyncio.wait(opening, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
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
            task.add_done_callback(close_loser)
            task.cancel()
        try:
            if opening:
                await asyncio.wait(opening)
        except BaseException:  # cancelled: the caller does not get the winner
            if winner is not None:
                winner.close()
            raise


def close_loser(task: asyncio.Task[socket.socket]) -> None:
    """Close a socket that connected after another one had won."""
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def interleave_families(found: list[Any]) -> list[Target]:
    """Return the resolved addresses in their order, alternating between address families."""
    by_family: dict[int, list[Target]] = {}
    for family, _, _, _, sockaddr in found:
        by_family.setdefault(family, []).append(Target(family, sockaddr))
    return [target for group in zip_longest(*by_family.values()) for target in group if target is not None]


def start_connecting(target: Target) -> socket.socket:
    """Start connecting to this address without blocking; raise OSError."""
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        code = sock.connect_ex(target.sockaddr)
        if code not in IN_PROGRESS:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect(target: Target) -> socket.socket:
    """Connect to this address; raise OSError."""
    sock = socket.socket(target.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, target.sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock

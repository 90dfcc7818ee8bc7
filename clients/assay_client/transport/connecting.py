"""Connections to the addresses of a service; some may not answer.

Each address of a name is tried a short delay after the previous one, or as soon as that one has failed; the first
connection wins (Happy Eyeballs, RFC 8305). An address that drops packets therefore costs only the delay. Event loops
use the same code, in a thread, if there are several: uvloop does not implement RFC 8305.
"""

from __future__ import annotations

import asyncio
import errno
import os
import selectors
import socket
from collections.abc import Sequence
from time import monotonic

from .resolving import Target

__all__ = ["ATTEMPT_DELAY", "connected_socket", "connected_socket_async"]

ATTEMPT_DELAY = 0.25
"""Seconds between attempts, as RFC 8305 recommends."""

IN_PROGRESS = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


def connected_socket(targets: Sequence[Target], seconds: float) -> socket.socket:
    """Connect to one of these addresses within `seconds`; raise OSError or TimeoutError. The socket does not block."""
    end = monotonic() + seconds
    untried = list(targets)
    failure = OSError("no address")
    with selectors.DefaultSelector() as opening:
        try:
            while untried or opening.get_map():
                if untried:
                    try:
                        opening.register(start_connecting(untried.pop(0)), selectors.EVENT_WRITE)
                    except OSError as error:
                        failure = error
                        continue
                left = end - monotonic()
                if left <= 0:
                    raise TimeoutError
                for key, _ in opening.select(min(ATTEMPT_DELAY, left) if untried else left):
                    sock: socket.socket = key.fileobj  # type: ignore[assignment]
                    opening.unregister(sock)
                    code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if not code:
                        return sock
                    failure = OSError(code, os.strerror(code))
                    sock.close()
            raise failure
        finally:
            for key in opening.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]


def start_connecting(target: Target) -> socket.socket:
    family, sockaddr = target
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        if family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        code = sock.connect_ex(sockaddr)
        if code not in IN_PROGRESS:
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


async def connected_socket_async(targets: Sequence[Target], seconds: float) -> socket.socket:
    """Return as `connected_socket`, without blocking the event loop: only several addresses need a thread."""
    if len(targets) > 1:
        connecting = asyncio.get_running_loop().run_in_executor(None, connected_socket, targets, seconds)
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:  # the thread continues, until it has a socket that nobody needs
            connecting.add_done_callback(close_result)
            raise
    ((family, sockaddr),) = targets
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def close_result(connecting: asyncio.Future[socket.socket]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()

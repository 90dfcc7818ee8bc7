"""Connections: to Unix sockets, and to host names with several addresses, some of which may not answer.

Each address of a name is tried a short delay after the previous one, or as soon as that one has failed; the first
connection wins (Happy Eyeballs, RFC 8305). An address that drops packets therefore costs only the delay. Event loops
use the same code, in a thread: resolving a name needs one anyway, and uvloop does not implement RFC 8305.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import selectors
import socket
from itertools import zip_longest
from time import monotonic
from typing import Any

from .addresses import Address

__all__ = ["ATTEMPT_DELAY", "connected_socket", "connected_socket_async"]

ATTEMPT_DELAY = 0.25
"""Seconds between attempts, as RFC 8305 recommends."""

IN_PROGRESS = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


Target = tuple[int, Any]
"""Family and socket address of one address of a service."""


def targets_of(address: Address) -> list[Target]:
    """Return the addresses of a service, alternating between address families; a name is resolved."""
    if address.socket_path is not None:
        return [(socket.AF_UNIX, address.socket_path)]
    by_family: dict[int, list[Target]] = {}
    for family, _, _, _, sockaddr in socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM):
        by_family.setdefault(family, []).append((family, sockaddr))
    return [target for group in zip_longest(*by_family.values()) for target in group if target is not None]


def connected_socket(address: Address, seconds: float) -> socket.socket:
    """Connect within `seconds`; raise OSError or TimeoutError. The socket does not block."""
    end = monotonic() + seconds
    targets = targets_of(address)
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
                        return sock
                    failure = OSError(code, os.strerror(code))
                    sock.close()
            raise failure
        finally:
            for key in opening.get_map().values():
                key.fileobj.close()  # type: ignore[union-attr]


def start_connecting(target: Target) -> socket.socket:
    """Start connecting to this address without blocking; raise OSError."""
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


async def connected_socket_async(address: Address, seconds: float) -> socket.socket:
    """Return as `connected_socket`, without blocking the event loop: only names need a thread."""
    if address.socket_path is None and is_name(address.host):
        connecting = asyncio.get_running_loop().run_in_executor(None, connected_socket, address, seconds)
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:  # the thread continues, until it has a socket that nobody needs
            connecting.add_done_callback(close_result)
            raise
    ((family, sockaddr),) = targets_of(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def is_name(host: str) -> bool:
    """Return whether a host is a name to be resolved, not an address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def close_result(connecting: asyncio.Future[socket.socket]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()

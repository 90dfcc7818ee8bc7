"""Resolution of host names within the time of a call, and connections to their addresses.

A name is resolved in a daemon thread, at most one at a time for each name, whose result all callers share. Every new
connection resolves its name again, so that a service that moves is followed. While that takes long or fails,
connections use the addresses of the last success.

Each address of a name is tried a short delay after the previous one, or as soon as that one has failed; the first
connection wins (Happy Eyeballs, RFC 8305). An address that drops packets therefore costs only the delay. Event loops
use the same code, in a thread, if there are several: uvloop does not implement RFC 8305.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import selectors
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from time import monotonic
from typing import Any

from .addresses import Address
from .http11 import TransportFault

STALE_SECONDS = 1.0
"""Time that a resolution may take before the last addresses of the name are used; a quarter of less time to connect."""

Target = tuple[int, Any]
"""Family and socket address of one address of a service."""

Name = tuple[str, int]


class Lookup:
    def __init__(self) -> None:
        self.started = monotonic()
        self.ended = threading.Event()
        self.targets: list[Target] = []
        self.error: Exception | None = None
        self._lock = threading.Lock()
        self._waiting: set[asyncio.Future[None]] = set()

    def run(self, name: Name) -> None:
        try:
            self.targets, self.error = targets_of(*name), None
        except Exception as error:
            self.error = error
        self.end(name)

    def end(self, name: Name) -> None:
        with _lock:
            if self.targets:
                _last_targets[name] = self.targets
            if _lookups.get(name) is self:
                del _lookups[name]
        with self._lock:
            self.ended.set()
            waiting, self._waiting = self._waiting, set()
        for future in waiting:
            with suppress(RuntimeError):  # its event loop has ended
                future.get_loop().call_soon_threadsafe(wake, future)

    async def wait(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        with self._lock:
            if self.ended.is_set():
                return
            self._waiting.add(future)
        try:
            await asyncio.wait({future}, timeout=seconds)
        finally:
            with self._lock:
                self._waiting.discard(future)

    def result(self, name: Name) -> list[Target]:
        """Return the addresses, if need be the last ones that were resolved; raise TransportFault or the cause."""
        targets = self.targets or _last_targets.get(name)
        if targets:
            return targets
        if not self.ended.is_set():
            raise TransportFault("its name could not be resolved in time")
        if isinstance(self.error, OSError):  # a copy: raising an exception changes its traceback
            raise type(self.error)(*self.error.args)
        raise TransportFault(f"its name could not be resolved ({self.error or 'it has no address'})")


_lookups: dict[Name, Lookup] = {}
_last_targets: dict[Name, list[Target]] = {}
_lock = threading.Lock()


def resolved(address: Address, seconds: float) -> list[Target]:
    targets = targets_without_lookup(address)
    if targets is None:
        name = address.host, address.port
        lookup = current_lookup(name)
        lookup.ended.wait(waiting_time(lookup, name, seconds))
        targets = lookup.result(name)
    return targets


async def resolved_async(address: Address, seconds: float) -> list[Target]:
    targets = targets_without_lookup(address)
    if targets is None:
        name = address.host, address.port
        lookup = current_lookup(name)
        await lookup.wait(waiting_time(lookup, name, seconds))
        targets = lookup.result(name)
    return targets


def targets_without_lookup(address: Address) -> list[Target] | None:
    """Return the address of a Unix socket or of an IP address, which need no thread; None for a name."""
    if address.socket_path is not None:
        return [(socket.AF_UNIX, address.socket_path)]
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return None
    return targets_of(address.host, address.port)


def targets_of(host: str, port: int) -> list[Target]:
    """Return the addresses of a host, alternating between address families; raise OSError."""
    by_family: dict[int, list[Target]] = {}
    for family, _, _, _, sockaddr in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        by_family.setdefault(family, []).append((family, sockaddr))
    return [target for group in zip_longest(*by_family.values()) for target in group if target is not None]


def current_lookup(name: Name) -> Lookup:
    with _lock:
        lookup = _lookups.get(name)
        if lookup is not None:
            return lookup
        lookup = _lookups[name] = Lookup()
    for daemon in (True, False):  # a subinterpreter may allow no daemon threads
        try:
            threading.Thread(None, lookup.run, "assay-client-resolver", (name,), daemon=daemon).start()
        except RuntimeError as error:  # noqa: PERF203
            lookup.error = error
        else:
            return lookup
    lookup.end(name)  # the operating system or the interpreter allows no more threads
    return lookup


def waiting_time(lookup: Lookup, name: Name, seconds: float) -> float:
    if name not in _last_targets:
        return max(seconds, 0.0)
    return max(lookup.started + min(STALE_SECONDS, seconds / 4) - monotonic(), 0.0)


def wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _forget_after_fork() -> None:
    """Forget the resolutions of the parent, whose threads a forked child lacks; the addresses remain."""
    global _lock
    _lock = threading.Lock()
    _lookups.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


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

"""Resolution of host names within the time of a call, and connections to their addresses.

A name is resolved in a daemon thread, at most one at a time for each name, whose result all callers share. Every new
connection resolves its name again, so that a service that moves is followed. While that takes long or fails,
connections use the addresses of the last success.

Each address of a name is tried a short delay after the previous one, or as soon as that one has failed; the first
connection wins (Happy Eyeballs, RFC 8305). An address that drops packets therefore costs only the delay. Addresses that
failed recently, also after they had accepted a connection, are tried last.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import zip_longest
from time import monotonic

from .addresses import Address
from .http11 import Target, TransportFault
from .waiting import WRITE, Waiting

STALE_SECONDS = 1.0
"""Time that a resolution may take before the last addresses of the name are used; a quarter of less time to connect."""

FAILED_SECONDS = 30.0
"""Time for which an address that failed is tried last."""

Name = tuple[str, int]

_lookups: dict[Name, Lookup] = {}
_last_targets: dict[Name, list[Target]] = {}
_failed_at: dict[Target, float] = {}
_lock = threading.Lock()


@dataclass(eq=False)
class Lookup:
    """A resolution that runs. Its future gets the error, or None."""

    started: float = field(default_factory=monotonic)
    future: Future[Exception | None] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # so that a call that is cancelled does not cancel it for others

    def run(self, name: Name) -> None:
        try:
            targets = targets_of(*name)
        except Exception as error:
            self.end(name, error)
        else:
            if targets:
                _last_targets[name] = targets
            self.end(name, None)

    def end(self, name: Name, error: Exception | None) -> None:
        with _lock:
            if _lookups.get(name) is self:
                del _lookups[name]
        self.future.set_result(error)


async def resolved(address: Address, seconds: float, waiting: Waiting) -> list[Target]:
    """Return the addresses, if need be the last ones that were resolved; raise TransportFault or the cause."""
    if address.socket_path is not None:
        return [(socket.AF_UNIX, address.socket_path)]
    name = address.host, address.port
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        pass
    else:
        return targets_of(*name)
    lookup = current_lookup(name)
    await waiting.settled(lookup.future, waiting_time(lookup, name, seconds))
    if name in _last_targets:
        return _last_targets[name]
    if not lookup.future.done():
        raise TransportFault("its name could not be resolved in time")
    error = lookup.future.result()
    if isinstance(error, OSError):  # a copy: raising an exception changes its traceback
        raise type(error)(*error.args)
    raise TransportFault(f"its name could not be resolved ({error or 'it has no address'})")


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
    failure: Exception | None = None
    for daemon in (True, False):  # a subinterpreter may allow no daemon threads
        try:
            threading.Thread(None, lookup.run, "assay-client-resolver", (name,), daemon=daemon).start()
        except RuntimeError as error:  # noqa: PERF203
            failure = error
        else:
            return lookup
    lookup.end(name, failure)  # the operating system or the interpreter allows no more threads
    return lookup


def waiting_time(lookup: Lookup, name: Name, seconds: float) -> float:
    if name not in _last_targets:
        return max(seconds, 0.0)
    return max(lookup.started + min(STALE_SECONDS, seconds / 4) - monotonic(), 0.0)


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


def has_failed(target: Target) -> bool:
    return monotonic() - _failed_at.get(target, float("-inf")) < FAILED_SECONDS


def put_last(target: Target) -> None:
    for other in list(_failed_at):
        if not has_failed(other):
            _failed_at.pop(other, None)
    _failed_at[target] = monotonic()


def restore(target: Target) -> None:
    _failed_at.pop(target, None)


def promising(targets: Sequence[Target], target: Target) -> int:
    """Return how many addresses may still answer: this one, and those that have not failed recently."""
    return 1 + sum(other != target and not has_failed(other) for other in targets)


async def connected_socket(targets: Sequence[Target], end: float, waiting: Waiting) -> tuple[socket.socket, Target]:
    """Connect to one of these addresses by `end`; raise OSError or TimeoutError. The socket does not block."""
    untried = sorted(targets, key=has_failed)
    opening: dict[socket.socket, Target] = {}
    failure = OSError("no address")
    try:
        while untried or opening:
            if untried:
                target = untried.pop(0)
                try:
                    opening[start_connecting(target)] = target
                except OSError as error:
                    put_last(target)
                    failure = error
                    continue
            left = end - monotonic()
            if left <= 0:
                raise TimeoutError
            seconds = min(ATTEMPT_DELAY, left) if untried else left
            for sock in await waiting.ready(dict.fromkeys(opening, WRITE), seconds):
                target = opening.pop(sock)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if not code:
                    return sock, target
                put_last(target)
                failure = OSError(code, os.strerror(code))
                sock.close()
        raise failure
    finally:
        for sock in opening:
            sock.close()


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

"""The socket that a server listens on: a port, a share of one, or a Unix socket."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import stat
import struct
import sys
from contextlib import suppress

from ...config import ServerSettings

__all__ = ["Listener", "address", "bind_shared", "listen"]

CONNECT_SECONDS = 1.0
"""Time for a server that may be alive to take a connection to its Unix socket."""

SO_ATTACH_FILTER = 26
"""Of Linux; the module `socket` does not have it."""

DROP_SYN = (
    (0x30, 0, 0, 13),  # load the byte of the TCP header that holds the flags
    (0x54, 0, 0, 0x12),  # keep SYN and ACK
    (0x15, 0, 1, 0x02),  # SYN alone: go on, anything else: skip one
    (0x06, 0, 0, 0),  # drop it
    (0x06, 0, 0, 0xFFFFFFFF),  # take it whole
)
"""A classic BPF program: (code, jump if true, jump if false, operand) of each instruction."""


class Listener:
    """A bound socket that can turn new clients away while those that have connected are still accepted."""

    def __init__(self, bound: socket.socket, path: str | None = None) -> None:
        self.socket = bound
        self._path = path
        self._file = None if path is None else os.stat(path)

    def turn_away(self) -> None:
        """Let no new connection begin, where the system can do that; handshakes that have begun are completed.

        The first packet of a connection is dropped rather than refused, so a client sends it again a second later and
        finds another server, or none. The path of a Unix socket is removed.
        """
        if self._path is not None:
            self._remove_path()
        elif sys.platform == "linux":
            program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
            filtering = struct.pack("HP", len(DROP_SYN), ctypes.addressof(program))
            with suppress(OSError):  # a sandbox may forbid it: clients that connect at the last moment are reset then
                self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filtering)

    def has_waiting(self) -> bool:
        """Whether there are connections that have not been accepted yet."""
        poller = select.poll()
        poller.register(self.socket, select.POLLIN)
        return bool(poller.poll(0))

    def close(self) -> None:
        """Close the socket, and remove its path unless another server has taken it."""
        self.socket.close()
        self._remove_path()

    def _remove_path(self) -> None:
        if self._path is None or self._file is None:
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), self._file):
                os.unlink(self._path)


def listen(settings: ServerSettings) -> Listener:
    """A listening socket; raises OSError."""
    if settings.uds:
        return listen_at(settings.uds, settings.backlog)
    where = (settings.host, settings.port)
    return Listener(socket.create_server(where, family=family(settings), backlog=settings.backlog))


def listen_at(path: str, backlog: int) -> Listener:
    """A Unix socket that takes the place of one that nobody listens on any more; raises OSError.

    It is bound under another name and then renamed, so that at every moment the path leads to a server or to nothing.
    """
    check_free(path)
    name = os.path.join(os.path.dirname(path), f".{os.getpid():x}")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            os.unlink(name)
        listener.bind(name)
        listener.listen(backlog)
        os.rename(name, path)
    except OSError:
        listener.close()
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    return Listener(listener, path)


def check_free(path: str) -> None:
    """Raise OSError if somebody listens at `path`, or if it is anything but a socket."""
    in_use = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise in_use
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):  # nothing, or what an earlier server has left
        return
    except (TimeoutError, BlockingIOError):  # it has more to accept than it can
        pass
    raise in_use


def bind_shared(settings: ServerSettings, port: int, *, first: bool = False) -> socket.socket:
    """A socket bound to a port that others share (SO_REUSEPORT), not yet listening; raises OSError.

    The `first` must find the port free: sharing it with a stranger, or with another service of one's own, would split
    the connections between the two without a word.
    """
    if first:
        socket.create_server((settings.host, port), family=family(settings)).close()
    shared = socket.socket(family(settings), socket.SOCK_STREAM)
    try:
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        shared.bind((settings.host, port))
    except OSError:
        shared.close()
        raise
    return shared


def family(settings: ServerSettings) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in settings.host else socket.AF_INET


def address(settings: ServerSettings, port: int | None = None) -> str:
    """Where clients find it: a URL, or `unix:` and a path."""
    if settings.uds:
        return f"unix:{settings.uds}"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port if port is None else port}"

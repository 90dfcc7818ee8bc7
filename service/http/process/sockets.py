"""Listening sockets: a port, a shared port, or a Unix socket; and how many descriptors the process may open."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import resource
import select
import socket
import stat
import struct
import sys
from contextlib import suppress

from ...config import ServerSettings
from .signals import FAILED

log = logging.getLogger("assay")

CONNECT_SECONDS = 1.0
SPARE_DESCRIPTORS = 64
"""Descriptors kept for files, pipes, and connections that get a refusal."""

MIN_DESCRIPTORS = 64
"""Least limit of open files with which the service starts; idle, it has about 20 open."""

SO_ATTACH_FILTER = 26
"""Linux only; missing from the module `socket`."""

DROP_SYN = (
    (0x30, 0, 0, 13),  # load the byte of the TCP header that holds the flags
    (0x54, 0, 0, 0x12),  # keep SYN and ACK
    (0x15, 0, 1, 0x02),  # SYN alone: next instruction, anything else: skip one
    (0x06, 0, 0, 0),  # drop it
    (0x06, 0, 0, 0xFFFFFFFF),  # accept it
)
"""A classic BPF program: (code, jump if true, jump if false, operand) of each instruction."""


class Listener:
    """A bound socket that can reject new clients and still accept the clients that are already connected."""

    def __init__(self, bound: socket.socket, path: str | None = None) -> None:
        self.socket = bound
        self._path = path
        self._file = None if path is None else os.stat(path)

    def address(self, settings: ServerSettings) -> str:
        return address(settings, None if settings.uds else self.socket.getsockname()[1])

    @property
    def is_open(self) -> bool:
        return self.socket.fileno() >= 0

    def stop_accepting(self) -> None:
        """Start no new connections, if the system supports that; pending handshakes are completed.

        SYN packets are dropped rather than refused, so a client repeats them after a second and reaches another
        server, or none. The path of a Unix socket is removed.
        """
        if self._path is not None:
            self._remove_path()
        elif sys.platform == "linux":
            program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
            filtering = struct.pack("HP", len(DROP_SYN), ctypes.addressof(program))
            with suppress(OSError):  # a sandbox may forbid it; then late clients are reset
                self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filtering)

    def has_waiting(self) -> bool:
        return bool(events_of(self.socket.fileno()) & select.POLLIN)

    def close(self) -> None:
        """Close the socket, and remove its path unless another server uses it now."""
        self.socket.close()
        self._remove_path()

    def _remove_path(self) -> None:
        if self._path is None or self._file is None:
            return
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(self._path), self._file):
                os.unlink(self._path)


def events_of(descriptor: int) -> int:
    """Return the state of a socket in the kernel: bits of POLLIN, POLLRDHUP, POLLHUP and POLLERR.

    POLLRDHUP: the client has closed its sending side, even if bytes are still unread. (With more bytes than the
    kernel's buffers hold, it shows only once enough have been read.)
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN | select.POLLRDHUP)
    return sum(events for _, events in poller.poll(0))


def listen(settings: ServerSettings) -> Listener:
    if settings.uds:
        return listen_on_path(settings.uds, settings.backlog)
    endpoint = (settings.host, settings.port)
    return Listener(socket.create_server(endpoint, family=family(settings), backlog=settings.backlog))


def listen_on_path(path: str, backlog: int) -> Listener:
    """Open a Unix socket in place of one without a listener; renamed, so that its path never lacks a server."""
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
    """Raise OSError if a server listens at `path`, or if it is not a socket."""
    in_use = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise in_use
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(CONNECT_SECONDS)
            client.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):  # free, or left by an earlier server
        return
    except (TimeoutError, BlockingIOError):  # a server whose queue is full
        pass
    raise in_use


def bind_shared(settings: ServerSettings, port: int, *, first: bool = False) -> socket.socket:
    """Bind a socket to a shared port (SO_REUSEPORT) without listening; raises OSError.

    With `first`, the port must be free: sharing it with another service would silently split the connections.
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
    """Return the address for clients: a URL, or `unix:` and a path."""
    if settings.uds:
        return f"unix:{settings.uds}"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"http://{host}:{settings.port if port is None else port}"


def cannot_listen(settings: ServerSettings, error: OSError) -> int:
    reason = str(error.strerror).partition(" (while")[0]
    if error.errno == errno.EADDRINUSE:
        reason += f"; choose another one with {'--uds' if settings.uds else '--port (0: any free one)'}"
    print(f"assay: cannot listen on {address(settings).removeprefix('unix:')}: {reason}", file=sys.stderr)
    return FAILED


def raise_descriptor_limit() -> bool:
    """Raise the limit of open files to the maximum: each connection needs one; return whether it is high enough."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # unlimited here, although the kernel has a limit
        log.debug("the limit of open files cannot be raised")
        hard = soft
    if 0 <= hard < MIN_DESCRIPTORS:  # -1: no limit
        print(
            f"assay: {hard} open files are too few to serve: allow {MIN_DESCRIPTORS} (ulimit -n, LimitNOFILE)",
            file=sys.stderr,
        )
        return False
    return True


def usable_descriptors() -> int:
    """Return the first descriptor number that is reserved for other purposes than connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    return soft - min(SPARE_DESCRIPTORS, soft // 4)

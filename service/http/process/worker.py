"""One of the processes that `assay.service.http.process.supervisor` starts; not for people."""

from __future__ import annotations

import pickle
import signal
import socket
import struct
from dataclasses import replace

from ...config import Config
from ..state import ServiceState
from .log_format import start_logging
from .server import run_server
from .signals import ENDING, end_process, handle_early
from .sockets import Listener, bind_shared
from .worker_channel import Member

__all__ = ["HELD_BACK", "main", "orders"]

LENGTH = struct.Struct("!I")

HELD_BACK = (*ENDING, signal.SIGHUP)
"""Signals that a worker begins with blocked: those of its first moments arrive once it has handlers."""


def main(descriptor: int) -> None:
    """Serve a share of a port until a signal ends it. What to do comes first over the socket to the supervisor."""
    handle_early()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    channel = socket.socket(fileno=descriptor)
    config, port, late = received(channel)
    start_logging(config.server.log_level, config.server.log_format)
    state = ServiceState(config)
    state.fleet = Member(channel, late=late)
    end_process(run_server(config, state, lambda: Listener(bind_shared(config.server, port))))


def orders(config: Config, port: int, late: bool) -> bytes:
    """What a worker is to do, as `received` reads it."""
    plain = replace(config, origins=dict(config.origins))  # a mapping proxy does not travel
    packed = pickle.dumps({"config": plain, "port": port, "late": late})
    return LENGTH.pack(len(packed)) + packed


def received(channel: socket.socket) -> tuple[Config, int, bool]:
    """The settings with their keys, the port, and whether other workers are serving already."""
    (length,) = LENGTH.unpack(channel.recv(LENGTH.size, socket.MSG_WAITALL))
    given = pickle.loads(channel.recv(length, socket.MSG_WAITALL))  # from the process that started this one
    return given["config"], given["port"], given["late"]

"""Entry point of a worker process; started by `supervisor.py`."""

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
from .worker_channel import WorkerChannel

__all__ = ["BLOCKED_SIGNALS", "main", "startup_message"]

LENGTH = struct.Struct("!I")

BLOCKED_SIGNALS = (*ENDING, signal.SIGHUP)
"""Signals that are blocked when a worker starts, until it has handlers for them."""


def main(descriptor: int) -> None:
    """Serve a share of a port until a signal ends it; the configuration arrives over the channel."""
    handle_early()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    channel = socket.socket(fileno=descriptor)
    config, port, listen_when_ready = read_startup_message(channel)
    start_logging(config.server.log_level, config.server.log_format)
    state = ServiceState(config)
    state.fleet = WorkerChannel(channel, listen_when_ready=listen_when_ready)
    end_process(run_server(config, state, lambda: Listener(bind_shared(config.server, port))))


def startup_message(config: Config, port: int, listen_when_ready: bool) -> bytes:
    """Encode the configuration of a worker for `read_startup_message`."""
    plain = replace(config, origins=dict(config.origins))  # a mapping proxy cannot be pickled
    packed = pickle.dumps({"config": plain, "port": port, "listen_when_ready": listen_when_ready})
    return LENGTH.pack(len(packed)) + packed


def read_startup_message(channel: socket.socket) -> tuple[Config, int, bool]:
    """Return the settings with their keys, the port, and whether to listen only once ready."""
    (length,) = LENGTH.unpack(channel.recv(LENGTH.size, socket.MSG_WAITALL))
    message = pickle.loads(channel.recv(length, socket.MSG_WAITALL))  # trusted: the parent process sends it
    return message["config"], message["port"], message["listen_when_ready"]

"""Signals before the server has handlers of its own, and the end of a process that waits for no thread."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

__all__ = ["ENDING", "end_process", "handle_early"]

ENDING = (signal.SIGTERM, signal.SIGINT)
"""What asks a service to end."""


def handle_early() -> Callable[[], None]:
    """End with exit code 0 on SIGTERM and SIGINT, and ignore SIGHUP; returns what restores the handlers.

    For the seconds in which modules are imported and nothing is served: an exception would leave one of them with a
    traceback.
    """
    handlers = {number: signal.signal(number, lambda *_: os._exit(0)) for number in ENDING}
    handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    return restore


def end_process(code: int) -> NoReturn:
    """Write out the logs and end, whatever other threads are doing: no interpreter waits for them."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # nobody reads it any more
            stream.flush()
    os._exit(code)

"""Early signal handlers, and an exit that does not wait for threads."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

DONE = 0
FAILED = 1

ENDING = (signal.SIGTERM, signal.SIGINT)
REPEAT_SECONDS = 0.5
"""Time in which a second signal is the first one once more: `timeout` and job schedulers signal a process and then its
group."""


def handle_early() -> Callable[[], None]:
    """Exit with code 0 on SIGTERM and SIGINT, without a traceback; return what restores the handlers."""
    handlers = {number: signal.signal(number, lambda *_: os._exit(0)) for number in ENDING}
    handlers[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def restore() -> None:
        for number, handler in handlers.items():
            signal.signal(number, handler)

    return restore


def end_process(code: int) -> NoReturn:
    """Flush the logs and exit at once, without waiting for other threads."""
    import logging  # takes longer than the rest of this module, which a process loads first

    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader has gone
            stream.flush()
    os._exit(code)

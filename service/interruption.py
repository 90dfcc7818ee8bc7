"""Ends a command at a signal: without a traceback, with its outputs cleaned up, and with the usual exit status."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

INTERRUPTED = 130

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RETRY_SECONDS = 0.05


class Ended(KeyboardInterrupt):
    """A signal, `number`, asks the command to end."""

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__(number)
        self.number = number


def exit_early() -> None:
    """Exit at once on Ctrl-C from now on, while modules are imported and nothing has to be cleaned up."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not if the shell wants it ignored
        signal.signal(signal.SIGINT, _exit_now)


def _exit_now(_number: int, _frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"\nInterrupted.\n")
    os._exit(INTERRUPTED)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise `Ended` at the signals that end a command, unless they are ignored (`nohup`, a job in the background).

    Libraries may replace the exception, which is undone, or swallow it where Python can only report it (`__del__`,
    callbacks from C): then the signal is sent again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise Ended(number)

    report = sys.unraisablehook

    def unraisable(arguments: Any) -> None:
        if isinstance(arguments.exc_value, Ended):
            again = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), arguments.exc_value.number))
            again.daemon = True
            again.start()
        else:
            report(arguments)

    handlers = {number: signal.getsignal(number) for number in ENDING}
    handlers = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}
    sys.unraisablehook = unraisable
    try:
        for number in handlers:
            signal.signal(number, end)
        yield
    except Exception:
        if received:
            raise Ended(received[0]) from None
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        sys.unraisablehook = report


def end_by_signal(number: int) -> None:
    """End this process by the signal, so that a shell sees 128 + `number`."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)

"""The code that runs in a job's process; started by `processes`."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ...errors import Issue
from ..wire.problems import Problem
from ..wire.stage_times import StageTimes
from .tracebacks import format_traceback

__all__ = ["HEADER", "Outcome", "perform", "prepare"]

HEADER = 8
"""Bytes before a shared body, for the id of the process that has read it."""

MAX_RESULT_BYTES = 128 << 20
"""Maximum bytes of a result: statistics may be many times as long as their input."""

GRACE_SECONDS = 2
"""CPU time beyond a job's deadline: a fallback, as the service kills the process at the deadline."""


class Outcome(NamedTuple):
    """The outcome of a job; its result replaces the body after the header."""

    times: StageTimes
    error: Problem | None = None
    out_of_memory: bool = False
    traceback: str = ""
    """Files, lines and types of an unexpected error."""


def prepare() -> None:
    """Set up the process to be killed at once by SIGTERM, and when the service ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit(resource.RLIMIT_CORE, 0)
    with suppress(OSError):  # the kernel's OOM killer takes this process, not the service
        Path("/proc/self/oom_score_adj").write_text("1000")
    parent = multiprocessing.parent_process()
    assert parent is not None
    alive = parent.sentinel  # a pipe that the service holds open
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(alive, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(alive, fcntl.F_SETFL, fcntl.fcntl(alive, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([alive], [], [], 0)[0]:
        os.kill(os.getpid(), signal.SIGKILL)


def perform(path: str, seconds: float, function: Callable[..., bytes], arguments: tuple[Any, ...]) -> Outcome:
    """Run one job, `function(body, *arguments, times)` with the shared body at `path`, within `seconds`."""
    times = StageTimes()
    limit(resource.RLIMIT_CPU, int(time.process_time() + seconds) + GRACE_SECONDS)
    try:
        with open(path, "r+b") as file:
            result = function(take_body(file), *arguments, times)
            if len(result) > MAX_RESULT_BYTES:
                raise reply_too_large()
            file.seek(HEADER)
            file.write(result)
    except Problem as error:
        return Outcome(times, error)
    except MemoryError:
        return Outcome(times, out_of_memory=True)
    except Exception as error:
        return Outcome(times, traceback=format_traceback(error))
    return Outcome(times)


def limit(kind: int, value: int) -> None:
    """Lower a soft limit if the system permits it."""
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def take_body(file: BinaryIO) -> bytes:
    """Return the shared body, and free its memory in the file."""
    os.pwrite(file.fileno(), os.getpid().to_bytes(HEADER, "little"), 0)
    file.seek(HEADER)
    body = file.read()
    file.truncate(HEADER)
    return body


def reply_too_large() -> Problem:
    issue = Issue("body", "reply_too_large", f"the reply has more than {MAX_RESULT_BYTES} bytes")
    return Problem("too-large", f"A reply may have {MAX_RESULT_BYTES} bytes here.", [issue])

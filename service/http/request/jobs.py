"""The other side of `processes`: what runs in the process of a job."""

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
from .tracebacks import stack_of

__all__ = ["HEADER", "Outcome", "perform", "prepare"]


HEADER = 8
"""Bytes before a lent body, for the number of the process that has taken it."""

MAX_RESULT_BYTES = 128 << 20
"""Longest result: statistics may be many times as long as what they are made of."""

SPARE_SECONDS = 2
"""Processor time beyond a job's time: the other side kills at the deadline, this limit only where it does not."""


class Outcome(NamedTuple):
    """The outcome of a job; its result follows the header, in the place of the body."""

    times: StageTimes
    error: Problem | None = None
    out_of_memory: bool = False
    stack: str = ""
    """Files, lines and types of an error that should not be."""


def prepare() -> None:
    """Called once in each process: it ends at once when told to, and when the service has gone, whatever it does."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit(resource.RLIMIT_CORE, 0)
    with suppress(OSError):  # if the machine or the container runs out of memory, this process goes, not the service
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
    """Do one job: `function(body, *arguments, times)` with the body that is lent at `path`, within `seconds`."""
    times = StageTimes()
    limit(resource.RLIMIT_CPU, int(time.process_time() + seconds) + SPARE_SECONDS)
    try:
        with open(path, "r+b") as lent:
            result = function(taken(lent), *arguments, times)
            if len(result) > MAX_RESULT_BYTES:
                raise too_long()
            lent.seek(HEADER)
            lent.write(result)
    except Problem as error:
        return Outcome(times, error)
    except MemoryError:
        return Outcome(times, out_of_memory=True)
    except Exception as error:
        return Outcome(times, stack=stack_of(error))
    return Outcome(times)


def limit(kind: int, value: int) -> None:
    """Lower a soft limit, where the system lets us: these limits are for the worst case alone."""
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


def taken(lent: BinaryIO) -> bytes:
    """The body that is lent, which gives its memory back to the system."""
    os.pwrite(lent.fileno(), os.getpid().to_bytes(HEADER, "little"), 0)
    lent.seek(HEADER)
    body = lent.read()
    lent.truncate(HEADER)
    return body


def too_long() -> Problem:
    issue = Issue("body", "reply_too_large", f"the reply to it has more than {MAX_RESULT_BYTES} bytes")
    return Problem("too-large", f"A reply may have {MAX_RESULT_BYTES} bytes here.", [issue])

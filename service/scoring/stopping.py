"""Stopping a batch whose rewards nobody awaits any more.

Kernels look at the flag of the job before each row: the thread is free a few milliseconds after the flag is set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

import numpy as np

from ...kernels.memory import NEVER
from ..errors import AssayError

T = TypeVar("T")

_flag: ContextVar[np.ndarray] = ContextVar("stop_flag", default=NEVER)


class Stopped(AssayError):
    """Scoring was stopped before its end, so there are no rewards."""


class StopFlag:
    """The flag of one job, which any thread may set."""

    def __init__(self) -> None:
        self._array = np.zeros(1, np.int64)

    def set(self) -> None:
        self._array[0] = 1

    @property
    def is_set(self) -> bool:
        return bool(self._array[0])

    def run(self, job: Callable[[], T]) -> T:
        """Return the result of the job; what it scores on this thread and its helpers raises Stopped after `set`."""
        token = _flag.set(self._array)
        try:
            return job()
        finally:
            _flag.reset(token)


def current_flag() -> np.ndarray:
    """Return the flag of the job that this thread runs as kernels take it, int64 (1,)."""
    return _flag.get()


def check_finished(finished: bool) -> None:
    """Raise Stopped unless a kernel has finished all of its rows."""
    if not finished:
        raise Stopped("the scoring was stopped")

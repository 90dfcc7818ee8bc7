"""CPU time of this or another process."""

from __future__ import annotations

import ctypes
import time

__all__ = ["cpu_seconds"]


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU seconds of all threads of a process, user and system; None if unsupported.

    Uses POSIX `clock_getcpuclockid` (nanoseconds): the ticks of /proc/PID/stat (10 ms) are too coarse.
    """
    clock = ctypes.c_int()
    try:
        failed = ctypes.CDLL(None).clock_getcpuclockid(ctypes.c_int(pid), ctypes.byref(clock))
        return None if failed else time.clock_gettime(clock.value)
    except (AttributeError, OSError, TypeError):
        return None

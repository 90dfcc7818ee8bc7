"""Keeps the resident memory below the ceiling documented in docs/operations.md.

Admission by bytes stays below the ceiling as long as a byte of a body takes at most six bytes of memory. In all other
cases this guard refuses new batches before the ceiling is reached.
"""

from __future__ import annotations

import ctypes
import os
from time import perf_counter

__all__ = ["ResidentGuard"]

HEADROOM_BYTES = 190 << 20
"""Memory beyond the size when the service became ready, without the memory of bodies."""

BYTES_PER_WORK_BYTE = 5
"""Bytes of memory per byte in work at which new batches are refused: one less than the ceiling's six."""

FRESH_SECONDS = 0.1


class ResidentGuard:
    def __init__(self, max_work_bytes: int) -> None:
        self._allowance = HEADROOM_BYTES + BYTES_PER_WORK_BYTE * max_work_bytes
        self.limit = 0
        self._resident = 0
        self._measured = -FRESH_SECONDS

    def start(self) -> None:
        """Set the limit relative to the current size; call it when the service has become ready."""
        resident = resident_bytes()
        self.limit = resident + self._allowance if resident else 0

    @property
    def exceeded(self) -> bool:
        """True while the process is above its limit, after the allocator has returned what it can."""
        now = perf_counter()
        if self.limit and now - self._measured > FRESH_SECONDS:
            self._measured = now
            self._resident = resident_bytes()
            if self._resident > self.limit:
                malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
                if malloc_trim is not None:
                    malloc_trim(0)
                self._resident = resident_bytes()
        return self._resident > self.limit > 0


def resident_bytes() -> int:
    """Return the resident size of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0

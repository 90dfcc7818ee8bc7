"""The service's resident memory, against the ceiling that docs/operations.md promises.

Admission by bytes keeps to the ceiling as long as a byte of a body takes at most six of memory. This guard holds where
that is wrong, and where something else in the process grows: it refuses new batches before the ceiling is reached.
"""

from __future__ import annotations

import ctypes
import os
from time import perf_counter

__all__ = ["ResidentGuard"]

HEADROOM_BYTES = 190 << 20
"""What a service may take beyond its size when it became ready, besides what it takes for bodies."""

BYTES_PER_WORK_BYTE = 5
"""Bytes of memory for each byte in work at which new batches are refused: one before the ceiling's six."""

FRESH_SECONDS = 0.1
"""Age up to which a measurement is used again."""

STATM = "/proc/self/statm"


class ResidentGuard:
    """Tells when the process is close to its memory ceiling. Without /proc, it never is."""

    def __init__(self, max_work_bytes: int) -> None:
        self._allowance = HEADROOM_BYTES + BYTES_PER_WORK_BYTE * max_work_bytes
        self.limit = 0
        """Resident bytes above which new batches are refused; 0 before the service is ready."""
        self._resident = 0
        self._measured = -FRESH_SECONDS

    def start(self) -> None:
        """Set the limit relative to the present size: that of a service that has just become ready."""
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
                trim()
                self._resident = resident_bytes()
        return self._resident > self.limit > 0


def resident_bytes() -> int:
    """Resident size of this process; 0 where the system does not say."""
    try:
        with open(STATM, "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def trim() -> None:
    """Have glibc return free memory to the system, of which it keeps what lies below something in use."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)

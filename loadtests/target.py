"""The service under load: a separate process on a free loopback port, and its resource usage."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from assay.service.bench.measure import BenchmarkError
from assay.service.bench.servers import SERVE, ServerProcess

__all__ = ["Target", "Usage"]


class Usage(NamedTuple):
    """CPU seconds since the process started, and its resident size and peak, in bytes."""

    cpu_seconds: float
    resident: int
    peak: int


class Target(ServerProcess):
    """`assay serve` with these flags, whatever the environment; its output goes to `log`."""

    def __init__(self, log: Path, *flags: str) -> None:
        super().__init__([*SERVE, *flags], log)

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except BenchmarkError as error:
            raise SystemExit(f"{error}; see {self._log}") from None

    def forget_peak(self) -> None:
        """Reset the peak of the resident size, if the system supports it."""
        with suppress(OSError):
            self._proc("clear_refs").write_text("5")

    def usage(self) -> Usage | None:
        """Return the usage of the process; None without /proc, or if the process has ended."""
        try:
            # The second field, the command's name, may hold spaces and brackets.
            fields = self._proc("stat").read_text().rpartition(")")[2].split()
            status = self._proc("status").read_text()
        except OSError:
            return None
        ticks = int(fields[11]) + int(fields[12])
        resident, peak = (kilobytes(status, name) for name in ("VmRSS", "VmHWM"))
        return Usage(ticks / os.sysconf("SC_CLK_TCK"), 1024 * resident, 1024 * peak)

    def _proc(self, name: str) -> Path:
        return Path(f"/proc/{self.pid}/{name}")


def kilobytes(status: str, name: str) -> int:
    """Return a size from /proc/PID/status, in kB."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) if found else 0

"""The service under load: a separate process on a free loopback port, and its resource usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

__all__ = ["Target", "Usage"]

ROOT = Path(__file__).resolve().parents[1]
SERVE = ["-c", "from assay.service.cli.main import main; main()", "serve", "--host", "127.0.0.1", "--port", "0"]
READY_WITHIN = 600.0
"""Seconds; enough for a machine without cached kernels."""
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens URLs without the proxies of the environment."""


class Usage(NamedTuple):
    """CPU seconds since the process started, and its resident size and peak, in bytes."""

    cpu_seconds: float
    resident: int
    peak: int


class Target:
    """`assay serve` with these flags alone, whatever the environment; its output goes to `log`."""

    def __init__(self, log: Path, *flags: str) -> None:
        self._log = log
        self._flags = flags

    def __enter__(self) -> Self:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_") or k == "ASSAY_CACHE_DIR"}
        with self._log.open("wb") as sink:
            self._process = subprocess.Popen(
                [sys.executable, *SERVE, *self._flags], cwd=ROOT, env=kept, stdout=sink, stderr=subprocess.STDOUT
            )
        try:
            self.address = self._announced()
            self._wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def alive(self) -> bool:
        return self._process.poll() is None

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
        return Path(f"/proc/{self._process.pid}/{name}")

    def _announced(self) -> str:
        for _ in self._patiently():
            found = re.search(r"serving url=(http://127\.0\.0\.1:\d+)", self._log.read_text(encoding="utf-8"))
            if found:
                return found[1]
        raise SystemExit(f"the service did not log its address; see {self._log}")

    def _wait_until_ready(self) -> None:
        for _ in self._patiently():
            try:
                with DIRECT.open(f"{self.address}/readyz", timeout=5):
                    return
            except OSError:  # refused, or 503 while kernels are compiled
                continue
        raise SystemExit(f"the service was not ready within {READY_WITHIN:.0f} s; see {self._log}")

    def _patiently(self) -> Iterator[None]:
        end = time.monotonic() + READY_WITHIN
        while self.alive() and time.monotonic() < end:
            yield
            time.sleep(0.05)


def kilobytes(status: str, name: str) -> int:
    """Return a size from /proc/PID/status, in kB."""
    found = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(found[1]) if found else 0

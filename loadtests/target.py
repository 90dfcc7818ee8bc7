"""The service under load: a separate process on a free loopback port with its resource usage, or one at an address."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self

from exchanges import authorization

from assay.service.bench.measure import SERVE, BenchmarkError, ServerProcess

__all__ = ["Remote", "Target", "Usage", "config_of"]

ANSWERS_WITHIN = 60.0


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


class Remote:
    """A service that runs already, at this address; its usage is not known."""

    def __init__(self, url: str) -> None:
        self.address = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def alive(self) -> bool:
        """Return whether the service still answers."""
        try:
            fetch(f"{self.address}/livez")
        except (OSError, ValueError):
            return False
        return True

    def forget_peak(self) -> None:
        """Do nothing: its memory is on another machine."""

    def usage(self) -> None:
        """Return None: its usage is not known."""


def config_of(address: str) -> dict[str, Any]:
    """Return `GET /v1/config` of the service at an address; raise SystemExit with the reason if there is none."""
    try:
        config: dict[str, Any] = json.loads(fetch(f"{address}/v1/config"))
    except urllib.error.HTTPError as error:
        advice = "; give its key: KEY=…, or the variable ASSAY_API_KEY" if error.code == 401 else ""
        raise SystemExit(f"{address}/v1/config answered {error.code}{advice}") from None
    except (OSError, ValueError) as error:
        raise SystemExit(f"there is no service at {address}: {getattr(error, 'reason', error)}") from None
    return config


def fetch(url: str) -> bytes:
    """Return the body of a reply; raise OSError, and ValueError for an invalid URL."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # Locust uses no proxy either
    with opener.open(urllib.request.Request(url, headers=authorization()), timeout=ANSWERS_WITHIN) as reply:
        content: bytes = reply.read()
    return content


def kilobytes(status: str, name: str) -> int:
    """Return a size from /proc/PID/status, in kB."""
    match = re.search(rf"^{name}:\s+(\d+) kB$", status, re.MULTILINE)
    return int(match[1]) if match else 0

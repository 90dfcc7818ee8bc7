"""A real server process on a free loopback port, and clients for it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
CODE = "from assay.service.cli.main import main; main()"
COMMAND = [sys.executable, "-c", CODE, "serve"]
"""What starts a server; the tests of trainers' code, whose Python has no service, put another one here."""
START_SECONDS = 600
"""Enough for a machine that has no kernel in its cache yet."""


class LiveServer:
    """A running `assay serve`."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log
        self.url = self._announced()

    @property
    def log(self) -> str:
        """What the process has written so far."""
        return self._log.read_text(encoding="utf-8")

    def _announced(self) -> str:
        for _ in self._until(START_SECONDS):
            found = re.search(r"serving url=([^\s\"]+)", self.log)
            if found:
                return found[1]
        raise AssertionError(f"the server has not said where it listens:\n{self.log}")

    def _until(self, seconds: float) -> Iterator[None]:
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            yield
            time.sleep(0.05)

    def client(self, **options: Any) -> httpx.Client:
        """A client of this server; proxies of the environment are left out."""
        if self.url.startswith("unix:"):
            transport = httpx.HTTPTransport(uds=self.url.removeprefix("unix:"))
            return httpx.Client(base_url="http://assay", transport=transport, trust_env=False, **options)
        return httpx.Client(base_url=self.url, trust_env=False, timeout=60, **options)

    def wait_until_ready(self) -> None:
        with self.client() as client:
            for _ in self._until(START_SECONDS):
                if client.get("/readyz").status_code == 200:
                    return
        raise AssertionError(f"the server has not become ready:\n{self.log}")

    def stop(self, signal_number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(signal_number)
        return self.process.wait(60)


def limited(descriptors: int) -> list[str]:
    """What comes before a command so that it may open so many descriptors; 0: no limit."""
    return ["bash", "-c", f'ulimit -n {descriptors} && exec "$@"', "bash"] if descriptors else []


@contextmanager
def launched(
    *flags: str, environ: Mapping[str, str] | None = None, before: str = "", descriptors: int = 0
) -> Iterator[LiveServer]:
    """A server of its own with these flags, not yet ready; it is stopped at the end.

    `before` is Python that its process runs first; `descriptors`, if any, is how many it may open.
    """
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    kept = {name: os.environ[name] for name in ("ASSAY_CACHE_DIR",) if name in os.environ}
    where = () if "--uds" in flags else ("--port", "0")
    command = [sys.executable, "-c", f"{before}\n{CODE}", "serve"] if before else COMMAND
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [*limited(descriptors), *command, *where, *flags],
                cwd=ROOT,
                env={**clean, **kept, **(environ or {})},
                stdout=sink,
                stderr=subprocess.STDOUT,
            )
        try:
            yield LiveServer(process, log)
        finally:
            process.kill()
            process.wait()

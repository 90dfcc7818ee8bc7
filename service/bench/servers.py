"""Servers of benchmarks and load tests, each in a separate process while it is measured."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Self

from ..config import PREFIX
from .measure import BenchmarkError, Run, clocked, cpu_seconds

__all__ = ["SERVE", "ServerProcess", "bare_server", "service"]

READY_WITHIN = 600.0  # seconds; enough for a machine without cached kernels
SETTLING = 0.02  # time after a reply until the server is idle: it updates metrics and frees memory
SERVE = ("-c", "from assay.service.cli import start; start()", "serve", "--drain-seconds", "0")


class ServerProcess:
    """Runs `python ARGUMENTS --port PORT` on a free loopback port, without the caller's settings."""

    def __init__(self, arguments: Sequence[str], log: Path | None = None) -> None:
        self._arguments = arguments
        self._log = log

    def __enter__(self) -> Self:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        variables = os.environ.items()
        environment = {name: v for name, v in variables if name == "ASSAY_CACHE_DIR" or not name.startswith(PREFIX)}
        command = [sys.executable, *self._arguments, "--port", str(self.port)]
        with nullcontext() if self._log is None else self._log.open("wb") as sink:
            self._process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
        self.pid = self._process.pid
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_WITHIN)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()

    def alive(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the server, once it is idle."""
        time.sleep(SETTLING)
        return cpu_seconds(self.pid)

    def timed_post(self, path: str, body: bytes, media_type: str) -> tuple[bytes, Run]:
        """Return the body of the reply, its time and the server's CPU time; raises BenchmarkError unless it is 200."""
        return clocked(lambda: self._post(path, body, media_type), self.cpu_seconds)

    def _post(self, path: str, body: bytes, media_type: str) -> bytes:
        try:
            self._connection.request("POST", path, body, {"Content-Type": media_type})
            reply = self._connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchmarkError(f"{path} was not answered: {error}") from error
        if reply.status != 200:
            raise BenchmarkError(f"{path} answered {reply.status}: {content[:500].decode(errors='replace')}")
        return content

    def _wait(self) -> None:
        started = time.monotonic()
        while time.monotonic() - started < READY_WITHIN:
            if not self.alive():
                raise BenchmarkError(f"the server ended with exit code {self._process.returncode}")
            try:
                self._connection.request("GET", "/readyz")
                reply = self._connection.getresponse()
                reply.read()
                if reply.status == 200:
                    return
            except OSError:
                self._connection.close()
            time.sleep(0.05)
        raise BenchmarkError(f"the server was not ready within {READY_WITHIN:.0f} s")


def service(*flags: str) -> ServerProcess:
    return ServerProcess([*SERVE, "--log-level", "warning", *flags])


def bare_server() -> ServerProcess:
    return ServerProcess(["-m", f"{__package__}.bare_server"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

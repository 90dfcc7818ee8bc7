"""Runs a server in a separate process while it is measured."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Self

from ..cpu_clock import cpu_seconds
from ..measure import BenchmarkError, Run, clocked

__all__ = ["ServerProcess"]

READY_WITHIN = 300.0

SETTLING = 0.02
"""Time after a reply until the server is idle: it updates metrics and frees memory."""


class ServerProcess:
    """Runs `python ARGUMENTS --port PORT` on a free loopback port, with one persistent connection."""

    def __init__(self, arguments: Sequence[str], ready_path: str, environment: Mapping[str, str] | None = None) -> None:
        self._arguments = arguments
        self._ready_path = ready_path
        self._environment = environment

    def __enter__(self) -> Self:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, *self._arguments, "--port", str(self.port)]
        self._process = subprocess.Popen(command, env=self._environment)
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

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the server, once it is idle."""
        time.sleep(SETTLING)
        return cpu_seconds(self.pid)

    def timed_post(self, path: str, body: bytes, media_type: str = "application/json") -> tuple[bytes, Run]:
        """Do `post`; return also its time and the CPU time of the server."""
        return clocked(lambda: self.post(path, body, media_type), self.cpu_seconds)

    def post(self, path: str, body: bytes, media_type: str = "application/json") -> bytes:
        """Return the body of the reply; raises BenchmarkError unless the status is 200."""
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
            if self._process.poll() is not None:
                raise BenchmarkError(f"the server ended with exit code {self._process.returncode}")
            try:
                self._connection.request("GET", self._ready_path)
                reply = self._connection.getresponse()
                reply.read()
                if reply.status == 200:
                    return
            except OSError:
                self._connection.close()
            time.sleep(0.05)
        raise BenchmarkError(f"the server was not ready within {READY_WITHIN:.0f} s")


def free_port() -> int:
    """Return a free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

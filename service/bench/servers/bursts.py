"""Client of the load generator process, which sends bursts on demand."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

import orjson

from ..measure import BenchmarkError, Run, WrongAnswerError
from .load_generator import Plan

__all__ = ["Bursts"]


class Bursts:
    """Runs a load generator in a separate process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", f"{__package__}.load_generator"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._write_line(orjson.dumps(self._plan._asdict()))
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def burst(self, requests: int) -> Run:
        """Send `requests` requests; raises WrongAnswerError, or BenchmarkError if replies are missing."""
        self._write_line(b"%d" % requests)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError("the load generator ended")
        outcome = orjson.loads(line)
        if "failed" in outcome:
            raise BenchmarkError(f"the load generator: {outcome['failed']}")
        if outcome["wrong"]:
            raise WrongAnswerError(outcome["wrong"])
        return Run(outcome["seconds"], outcome["cpu_seconds"], outcome["client_seconds"])

    def _write_line(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

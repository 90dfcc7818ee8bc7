"""The load generator as its user sees it: a process that is asked for one burst after the other."""

from __future__ import annotations

import subprocess
import sys
from typing import Self

import orjson

from ..measure import LaneError, Turn, WrongAnswerError
from .load_generator import Plan

__all__ = ["Bursts"]


class Bursts:
    """A load generator in a process of its own, for as long as it is needed."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "assay.service.bench.servers.load_generator"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._tell(orjson.dumps(self._plan._asdict()))
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def burst(self, requests: int) -> Turn:
        """Send so many requests; raises WrongAnswerError, and LaneError where replies did not come."""
        self._tell(b"%d" % requests)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LaneError("the load generator ended")
        outcome = orjson.loads(line)
        if "failed" in outcome:
            raise LaneError(f"the load generator: {outcome['failed']}")
        if outcome["wrong"]:
            raise WrongAnswerError(outcome["wrong"])
        return Turn(outcome["seconds"], outcome["cpu_seconds"], outcome["client_seconds"])

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

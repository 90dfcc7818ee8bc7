"""Jobs for the tests of processes, which import them by name."""

from __future__ import annotations

import ast
import os
import signal
import time
from pathlib import Path

from assay.service.errors import Issue
from assay.service.http.wire.problems import Problem
from assay.service.http.wire.stage_times import StageTimes

PIECE = 16 << 20


def upper(body: bytes, times: StageTimes) -> bytes:
    times.score = 0.25
    return body.upper()


def process_id(body: bytes, times: StageTimes) -> bytes:
    return b"%d" % os.getpid()


def memory_score(body: bytes, times: StageTimes) -> bytes:
    return Path("/proc/self/oom_score_adj").read_bytes()


def parse_for_ever(body: bytes, path: str, times: StageTimes) -> bytes:
    """Hold the GIL for ever; write the process id to `path`."""
    Path(path).write_text(str(os.getpid()))
    while True:
        ast.parse("f(1)\n" * 40_000)


def sum_for_ever(body: bytes, path: str, times: StageTimes) -> bytes:
    """Run one C call that neither releases the GIL nor handles signals; write the process id to `path`."""
    Path(path).write_text(str(os.getpid()))
    return b"%d" % sum(range(10**15))


def hoard(body: bytes, times: StageTimes) -> bytes:
    pieces = []
    while True:
        pieces.append(b"x" * PIECE)
        time.sleep(0.005)


def ask_for_too_much(body: bytes, times: StageTimes) -> bytes:
    raise MemoryError


def refuse(body: bytes, number: int, times: StageTimes) -> bytes:
    raise Problem("invalid-request", "No.", [Issue("x" * 1_000, "wrong_type", "no")] * number, [(b"a", b"b")])


def fail(body: bytes, times: StageTimes) -> bytes:
    raise LookupError(body)


def die(body: bytes, number: int, times: StageTimes) -> bytes:
    os.kill(os.getpid(), signal.Signals(number))
    return b""


def answer_at_length(body: bytes, size: int, times: StageTimes) -> bytes:
    return bytes(size)

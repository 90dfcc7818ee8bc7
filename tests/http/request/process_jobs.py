"""A fork server with jobs for the tests of processes."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson

from assay.service.errors import Issue
from assay.service.http.request.fork_server import JOB, JobKind, serve
from assay.service.http.request.jobs import JobCall, run_process
from assay.service.wire.problems import Problem
from assay.service.wire.stage_times import StageTimes

PIECE = 16 << 20


def upper(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    times.score = 0.25
    return body.upper()


def process_id(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    return b"%d" % os.getpid()


def memory_score(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    return Path("/proc/self/oom_score_adj").read_bytes()


def sum_for_ever(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    """Run one C call that neither releases the GIL nor handles signals; write the process id to `path`, all at once."""
    path = Path(call.arguments["path"])
    written = path.with_suffix(".written")
    written.write_text(str(os.getpid()))
    written.replace(path)
    return b"%d" % sum(range(10**15))


def wait_once(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    """Write the process id to `path` and wait; return at once if another process has written its own."""
    path = Path(call.arguments["path"])
    if path.exists():
        return b"again"
    path.write_text(str(os.getpid()))
    time.sleep(60)
    return b"never"


def hoard(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    pieces = []
    while True:
        pieces.append(b"x" * PIECE)
        time.sleep(0.005)


def ask_for_too_much(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    raise MemoryError


def refuse(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    issues = [Issue("x" * 1_000, "wrong_type", "no")] * call.arguments["number"]
    raise Problem("invalid-request", "No.", issues)


def fail(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    raise LookupError(body)


def die(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    signal.raise_signal(call.arguments["number"])
    return b""


def answer_at_length(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    return bytes(call.arguments["size"])


def report(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    """Return what this process may do, as JSON."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    tried: dict[str, Callable[[], object]] = {
        "socket": socket.socket,
        "socketpair": socket.socketpair,
        "execve": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(os.getppid(), 0),
        "pidfd_send_signal": lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), 0),
    }
    return orjson.dumps(
        {
            "environment": dict(os.environ),
            "folder": os.getcwd(),
            "descriptors": {name: os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")[:-1]},
            "no_new_privileges": int(status["NoNewPrivs"]),
            "limits": {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
            "errors": {name: error_of(call) for name, call in tried.items()},
        }
    )


LIMITS = ("RLIMIT_CORE", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE")


def error_of(function: Callable[[], object]) -> str:
    try:
        function()
    except OSError as error:
        return type(error).__name__
    return ""


def count_up(body: bytes, call: JobCall, times: StageTimes) -> Iterator[list[bytes]]:
    """Yield numbers, then never end."""
    for number in range(call.arguments["number"]):
        yield [b"%d" % number]
    sum_for_ever(body, call, times)


JOBS = {
    function.__name__: function
    for function in (
        *(upper, process_id, memory_score, sum_for_ever, hoard, ask_for_too_much, refuse, fail, die),
        *(answer_at_length, report, count_up, wait_once),
    )
}


def main(descriptor: int) -> None:
    gc.disable()
    serve(descriptor, {JOB: JobKind(lambda channel, _descriptors: run_process(channel, JOBS), owned=True)})

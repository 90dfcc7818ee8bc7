"""Run another implementation: a program that reads JSON rows from standard input and writes JSON rows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any

from .vectors import Vector

__all__ = ["run_engine"]

MAX_LINE_BYTES = 1 << 20
MAX_PROBLEMS = 20  # faulty lines after which an engine is stopped

Answers = dict[str, dict[str, Any]]


def run_engine(command: Sequence[str], cases: Sequence[Vector], timeout: float) -> tuple[Answers, list[str]]:
    """Send the rows to a command and read its answers for at most `timeout` seconds; raises OSError."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=1 << 16
    )
    assert process.stdin is not None
    assert process.stdout is not None
    timed_out = threading.Event()

    def expire() -> None:
        timed_out.set()
        stop(process)

    timer = threading.Timer(timeout, expire)
    feeder = threading.Thread(target=feed, args=(process.stdin, cases), name="assay-engine-input", daemon=True)
    timer.start()
    feeder.start()
    try:
        answers, problems = read_answers(process.stdout, {case.id for case in cases})
        if len(problems) >= MAX_PROBLEMS:
            problems.append(f"it was stopped after {MAX_PROBLEMS} faulty lines")
            stop(process)
        code = process.wait()
    finally:
        timer.cancel()
        stop(process)
        process.stdout.close()
        feeder.join()
    if timed_out.is_set():
        problems.append(f"it was stopped after {timeout:g} s with {len(answers):,} answers")
    elif code and len(problems) < MAX_PROBLEMS:
        problems.append(f"it {ending(code)} after {len(answers):,} answers")
    return answers, problems


def feed(stream: IO[bytes], cases: Sequence[Vector]) -> None:
    with suppress(OSError), stream:
        for case in cases:
            stream.write(json.dumps(case.row).encode() + b"\n")


def read_answers(stream: IO[bytes], ids: set[str]) -> tuple[Answers, list[str]]:
    answers: Answers = {}
    problems: list[str] = []
    number = 0
    while len(problems) < MAX_PROBLEMS and (line := stream.readline(MAX_LINE_BYTES)):
        number += 1
        if not line.strip():
            continue
        problem = add_answer(answers, line, ids)
        if problem:
            problems.append(f"line {number:,} of its output {problem}")
    return answers, problems


def add_answer(answers: Answers, line: bytes, ids: set[str]) -> str:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        return "is too long" if len(line) >= MAX_LINE_BYTES else "is not JSON"
    if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
        return "is not an object with the id of a row"
    name = answer["id"]
    if name not in ids:
        return f"has an unknown id: {name[:100]!r}"
    if name in answers:
        return f"answers {name} a second time"
    answers[name] = answer
    return ""


def stop(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def ending(code: int) -> str:
    names = {member.value: member.name for member in signal.Signals}  # real-time signals have none
    return f"exited with code {code}" if code > 0 else f"was killed by {names.get(-code, f'signal {-code}')}"

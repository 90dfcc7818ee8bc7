"""Signals at twelve moments of the start and the work of every command: no traceback, documented exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.command_line import ASSAY, KEY_LINE, RESPONSE, write_rows
from tests.launcher import environment

MOMENTS = 12
ROW = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p", "reward": 0.5, "reason": "ok"}
COMMANDS = {
    "score": ("score", "in.jsonl", "-o", "out.jsonl", "-q"),
    "evaluate": ("evaluate", "in.jsonl", "--json", "out.json", "-q"),
    "check": ("check", "in.jsonl", "--html", "out.html", "-q"),
    "ablate": ("ablate", "in.jsonl", "-o", "out.jsonl", "-q"),
    "config": ("config",),
    "serve": ("serve", "--port", "0"),
}
ENDS = {
    signal.SIGINT: {130, -signal.SIGINT},
    signal.SIGTERM: {-signal.SIGTERM},
    signal.SIGHUP: {-signal.SIGHUP},
}


@pytest.mark.attack
@pytest.mark.soak
@pytest.mark.parametrize("number", ENDS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_signal_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, number: int) -> None:
    """Send a signal at moments from the first line of code on: what was there stays, or the output is whole."""
    monkeypatch.chdir(tmp_path)
    write_rows(Path("in.jsonl"), [ROW] * 20_000)
    arguments = COMMANDS[command]
    serves = command == "serve"
    began = time.monotonic()
    if not serves:
        subprocess.run([*ASSAY, *arguments], env=environment(), capture_output=True, check=True)
    duration = 2.0 if serves else time.monotonic() - began
    outputs = [Path(name) for name in arguments if name.startswith("out.")]
    whole = [path.read_bytes() for path in outputs]
    for moment in range(MOMENTS):
        for path in outputs:
            path.write_text("before\n")
        reading, writing = os.pipe()
        code = f"import os; os.write({writing}, b'.'); {ASSAY[-1]}"
        process = subprocess.Popen(
            [ASSAY[0], "-c", code, *arguments], env=environment(), stdout=-1, stderr=-1, pass_fds=[writing]
        )
        _wait_for_first_line(reading, writing)
        time.sleep(0.05 + duration * moment / MOMENTS)
        process.send_signal(number)
        if serves and number == signal.SIGHUP:
            time.sleep(0.2)
            assert process.poll() is None, moment
            process.terminate()
        _, complaint = process.communicate(timeout=60)
        assert b"Traceback" not in complaint, (moment, complaint)
        assert process.returncode in ({0} if serves else {0, *ENDS[number]}), (moment, complaint)
        assert not list(tmp_path.glob(".*")), moment
        for path, content in zip(outputs, whole, strict=True):
            same = path.read_bytes() == content or path.suffix != ".jsonl"  # others hold times
            assert path.read_bytes() == b"before\n" or same, moment


def _wait_for_first_line(reading: int, writing: int) -> None:
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)

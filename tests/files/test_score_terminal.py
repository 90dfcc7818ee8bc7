"""`assay score`: a progress bar on terminals only."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.command_line import write_rows

pty = pytest.importorskip("pty")


def on_a_terminal(start, *arguments) -> tuple[int, str]:
    """Run with a terminal as standard error; return the exit code and the output."""
    ours, theirs = pty.openpty()
    process = start(*arguments, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:  # Linux says so when the other end is closed
            break
        if not block:
            break
        shown += block
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_a_terminal_sees_progress_and_the_faults_above_it(start, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [*example_rollouts * 150, b"{"]), tmp_path / "out.jsonl"
    code, shown = on_a_terminal(start, "score", source, "-o", target)
    assert code == 1
    assert "rows, " in shown
    assert "] " in shown
    assert f"\r\x1b[K{source}:3001: " in shown
    assert shown.rstrip().splitlines()[-1].endswith("%")
    assert "scored       3,000" in shown


def test_quiet_on_a_terminal(start, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts), tmp_path / "out.jsonl"
    assert on_a_terminal(start, "score", source, "-o", target, "-q") == (0, "")


def test_no_terminal_no_progress(run, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts * 150), tmp_path / "out.jsonl"
    result = run("score", source, "-o", target)
    assert result.returncode == 0
    assert b"\r" not in result.stderr
    assert b"\x1b" not in result.stderr

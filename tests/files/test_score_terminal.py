"""`assay score`: a progress bar on terminals only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay import ScoreSettings
from tests.cli.terminals import shown_on_a_terminal
from tests.command_line import environment, write_rows


@pytest.fixture(autouse=True)
def a_usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_terminal_sees_progress_and_the_faults_above_it(start, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [*example_rollouts * 150, b"{"]), tmp_path / "out.jsonl"
    code, shown = shown_on_a_terminal(start, "score", source, "-o", target)
    assert code == 1
    assert " rows, " in shown
    assert " a second" in shown
    assert re.search(r"\d+%", shown)
    assert f"\x1b[2K{source}:3001: " in shown
    summary = shown[shown.index("scored       3,000") :]
    assert "\x1b[1mreason" in summary
    assert summary.rstrip().endswith(f"%\r\n\r\n{ScoreSettings().signature}")
    assert all(text in summary for text in ("mean reward", "not_json", "low_coverage"))


def test_no_terminal_no_progress(run, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts * 150), tmp_path / "out.jsonl"
    result = run("score", source, "-o", target, env={**environment(), "FORCE_COLOR": "1", "COLUMNS": "20"})
    assert result.returncode == 0
    assert max(map(len, result.stderr.splitlines())) > 70
    assert b"\r" not in result.stderr
    assert b"\x1b" not in result.stderr

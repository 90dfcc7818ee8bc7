"""Commands with settings at their ends, and with empty files: a documented exit code and a sentence, never a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, RESPONSE, write_rows

ROW = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p", "reward": 0.5, "reason": "ok"}
HUGE = str(2**63)

CALLS: list[tuple[int, tuple[str, ...]]] = [
    *((0, ("config", "--threads", number)) for number in ("1", "1024")),
    *((2, ("config", "--threads", number)) for number in ("0", "10000", HUGE, "x")),
    (1, ("score", "in.jsonl", "--max-line-bytes", "1")),
    (0, ("score", "in.jsonl", "--max-line-bytes", str(2**62))),
    *((2, ("score", "in.jsonl", "--max-line-bytes", number)) for number in ("0", HUGE)),
    *((0, ("score", "in.jsonl", "--min-coverage", number)) for number in ("0", "1")),
    *((2, ("score", "in.jsonl", "--min-coverage", number)) for number in ("-1e-9", "1.0001", "nan", "inf")),
    *((2, ("explain", "in.jsonl", "-n", number)) for number in (HUGE, "1000000", "-1")),
    (0, ("explain", "in.jsonl", "-n", "1", "--suggestions", "0")),
    *((0, ("select", "in.jsonl", "--best", number)) for number in ("1", HUGE)),
    *((2, ("select", "in.jsonl", "--best", number)) for number in ("0", "-1")),
    (0, ("select", "in.jsonl", "--pairs", HUGE)),
    (2, ("select", "in.jsonl", "--best", "1", "--min-reward", "inf")),
    (0, ("evaluate", "in.jsonl", "--resamples", "1", "--seed", HUGE)),
    (2, ("evaluate", "in.jsonl", "--resamples", "0")),
    (0, ("check", "in.jsonl", "--similarity", "1")),
    (2, ("check", "in.jsonl", "--similarity", "0")),
    (2, ("conformance", "--timeout", "0")),
    (0, ("prepare", "in.jsonl", "-o", "rows", "--similarity", "1", "--seed", HUGE, "--distractors", HUGE)),
    (2, ("prepare", "in.jsonl", "-o", "rows", "--test", "1")),
]

EMPTY: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("evaluate", "check", "ablate"), (0, ())),
    "score": (0, ("-o", "out.jsonl")),
    "select": (0, ("--best", "1", "-o", "out.jsonl")),
    "explain": (2, ()),
    "prepare": (2, ("-o", "rows", "--similarity", "1")),
}


@pytest.mark.parametrize(("code", "arguments"), CALLS, ids=str)
def test_settings_at_their_ends(call, tmp_path: Path, monkeypatch, code: int, arguments: tuple[str, ...]) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "in.jsonl", [ROW] * 3)
    flags = ("-o", "out.jsonl") if arguments[0] in ("score", "select") else ()
    result = call(*arguments, *flags)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr
    assert code == 0 or result.stderr


@pytest.mark.parametrize("content", [b"", b" \n\n"], ids=["nothing", "blank lines"])
@pytest.mark.parametrize("command", EMPTY)
def test_empty_files(call, tmp_path: Path, monkeypatch, command: str, content: bytes) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_bytes(content)
    code, flags = EMPTY[command]
    result = call(command, "in.jsonl", *flags)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, result.stderr
    assert "in.jsonl" in result.stderr or "nothing is written" in result.stderr
    assert not Path("rows").exists()
    assert Path("out.jsonl").exists() == ("out.jsonl" in flags)

"""Files that others have written, where a command reads them: devices, pipes, endless and malformed ones."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from assay.service.records.files import opening
from assay.service.tasks import endpoint
from tests.command_line import KEY_LINE, RESPONSE, write_rows
from tests.evaluate.judge_server import completion, standing_in

pytestmark = pytest.mark.attack

Call = Callable[..., Result]
ROW = {"id": "a", "response": RESPONSE, "reference": KEY_LINE, "prompt": "p", "reward": 0.5, "reason": "ok"}
MAX_PRINTED = 12_000

DEVICE_COMMANDS: dict[str, tuple[str, ...]] = {
    "score": ("score", "ODD", "-o", "out.jsonl"),
    "score JSON": ("score", "ODD", "--input-format", "json", "-o", "out.jsonl"),
    "score Parquet": ("score", "ODD", "--input-format", "parquet", "-o", "out.jsonl"),
    "evaluate": ("evaluate", "ODD"),
    "evaluate JSON": ("evaluate", "ODD", "--input-format", "json"),
    "labels": ("evaluate", "GOOD", "--labels", "ODD"),
    "check": ("check", "ODD"),
    "ablate": ("ablate", "ODD"),
    "select": ("select", "ODD", "--best", "1", "-o", "out.jsonl"),
    "explain": ("explain", "ODD"),
    "prepare": ("prepare", "ODD", "-o", "rows"),
}
WHOLE_COMMANDS: dict[str, tuple[str, ...]] = {
    "grid": ("ablate", "GOOD", "--grid", "ODD"),
    "configuration": ("config", "--config", "ODD"),
    "score with a configuration": ("score", "GOOD", "--config", "ODD"),
    "keys": ("config", "--api-keys-file", "ODD"),
    "replies": ("evaluate", "JUDGED", "--task", "llam_eval", "--option", "replies=ODD"),
}


def arguments(names: tuple[str, ...], odd: Path, folder: Path) -> list[str]:
    paths = {
        "ODD": str(odd),
        "GOOD": str(write_rows(folder / "good.jsonl", [ROW] * 2)),
        "JUDGED": str(write_rows(folder / "judged.jsonl", [{"generated_response": "a", "reference": "b"}])),
    }
    return [paths.get(name, name.replace("ODD", str(odd))) for name in names]


@pytest.mark.parametrize("command", DEVICE_COMMANDS)
def test_rows_of_a_device_without_an_end_are_refused(call: Call, tmp_path: Path, monkeypatch, command: str) -> None:
    """/dev/zero as a JSON document took all memory, as JSON Lines all time."""
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "zero.jsonl"
    odd.symlink_to("/dev/zero")
    result = call(*arguments(DEVICE_COMMANDS[command], odd, tmp_path))
    assert result.exit_code == 2, result.output
    assert f"{odd}: it is a device, which may have no end" in result.stderr
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("command", WHOLE_COMMANDS)
def test_files_that_are_read_whole_are_regular(
    call: Call, tmp_path: Path, monkeypatch, command: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = tmp_path / "odd"
    if kind == "device":
        odd.symlink_to("/dev/zero")
    else:
        os.mkfifo(odd)
    result = call(*arguments(WHOLE_COMMANDS[command], odd, tmp_path))
    assert result.exit_code == 2, result.output
    assert "not a regular file" in result.stderr


def test_files_that_are_read_whole_have_a_limit(call: Call, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(64 << 30)  # a hole, which takes no room
    for command in ("grid", "configuration", "keys"):
        result = call(*arguments(WHOLE_COMMANDS[command], large, tmp_path))
        assert result.exit_code == 2, result.output
        assert "it has more than 1 MiB" in result.stderr
    folder = tmp_path / "rows"
    folder.mkdir()
    large.rename(folder / "assay.json")
    result = call("evaluate", folder, arguments(("GOOD",), large, tmp_path)[0])
    assert (result.exit_code, "assay.json: it has more than 1,024 MiB" in result.stderr) == (2, True), result.output


def test_rows_may_come_through_a_pipe(call: Call, tmp_path: Path, monkeypatch) -> None:
    """Rows are streamed; a JSON document of a pipe is read to its end, or to the limit."""
    monkeypatch.setattr(opening, "MAX_DOCUMENT", 1 << 21)
    for name, content, error in (
        ("rows.jsonl", json.dumps(ROW).encode() + b"\n", ""),
        ("rows.json", json.dumps([ROW]).encode(), ""),
        (
            "large.json",
            b"[" + b" " * (4 << 20) + b"]",
            "it has more than 2 MiB; JSON Lines may have any number of rows",
        ),
    ):
        pipe = tmp_path / name
        os.mkfifo(pipe)

        def write(pipe: Path = pipe, content: bytes = content) -> None:
            try:
                pipe.write_bytes(content)
            except BrokenPipeError:
                assert len(content) > 1 << 21

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        result = call("score", pipe, "-o", tmp_path / f"{name}.out.jsonl")
        writer.join(30)
        assert (result.exit_code, error in result.stderr) == (2 if error else 0, True), result.output


MANIFESTS: dict[str, Any] = {
    "a number": 5,
    "a list": [1],
    "rows of numbers": {"manifest": 1, "rows_sha256": "", "rows": [1]},
    "no rows": {"manifest": 1, "rows_sha256": "", "rows": []},
    "long names": {"manifest": "\nError: forged" * 50_000, "rows_sha256": "", "rows": []},
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_malformed_manifests(call: Call, tmp_path: Path, name: str) -> None:
    (tmp_path / "assay.json").write_text(json.dumps(MANIFESTS[name]))
    result = call("evaluate", tmp_path, write_rows(tmp_path / "answers.jsonl", [ROW]))
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == 2
    assert len(result.output) < MAX_PRINTED
    assert "\nError: forged" not in result.stderr


@pytest.fixture
def folder(call: Call, tmp_path: Path, monkeypatch) -> Path:
    """Return a prepared folder whose ids are long and forge messages."""
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.0025)
    records = [
        {
            "question": f"How {k}?",
            "choices": ["3", "5"],
            "answer": "5",
            "id": f"{k}\nError: forged\x1b[2J" + "x" * 9_000,
        }
        for k in range(12)
    ]
    source = write_rows(tmp_path / "records.jsonl", records)
    done = call("prepare", source, "-o", tmp_path / "rows", "--similarity", 1, "--test", 0, "-q")
    assert done.exit_code == 0, done.output
    return tmp_path / "rows"


REASONS: dict[str, Any] = {
    "long": "x" * 3_000_000,
    "with a line end": "stop\nError: forged\x1b[2J",
    "of each answer another": None,
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons_of_a_server_are_short_and_harmless(call: Call, folder: Path, name: str) -> None:
    """A finish_reason of 3 MB was printed, with its line ends; ids of faults were too."""
    target = folder.parent / "answers.jsonl"

    def answer(_: dict[str, Any], number: int) -> tuple[int, dict[str, str], Any]:
        if number % 4 == 3:
            return 400, {}, b"x" * 100_000
        reply = completion("answer")
        reply["choices"][0]["finish_reason"] = REASONS[name] or f"reason {number}"
        reply["usage"] = {"tokens": "x" * 1_000_000} if name == "long" else {"total_tokens": 3}
        return 200, {}, reply

    with standing_in(answer) as server:
        flags = ("--endpoint", server.base_url, "--model", "m", "-o", target, "--split", "train", "--concurrency", 1)
        done = call("generate", folder, *flags)
        assert done.exit_code == 1, done.output
        assert len(done.output) < MAX_PRINTED
        for forged in ("\nError: forged", "\x1b"):
            assert forged not in done.output
        assert "finished  " in done.stdout
        assert target.stat().st_size < 12 * 20_000
        changed = call("generate", folder, *flags[:3], "other\nError: forged" * 9_000, *flags[4:])
    assert changed.exit_code == 2
    assert len(changed.output) < MAX_PRINTED
    assert "\nError: forged" not in changed.output


REPLIES = {
    "not JSON": b'{"request": ' + b"[" * 100_000,
    "texts that are none": b'{"request": "a", "texts": 5, "logprobs": null}\n',
    "no texts": b'{"request": "a", "texts": [], "logprobs": null}\n',
    "logprobs that are none": b'{"request": "a", "texts": ["x"], "logprobs": {"a": "b"}}\n',
    "a list": b"[1, 2]\n",
}


@pytest.mark.parametrize("name", REPLIES)
def test_malformed_replies_of_judges(call: Call, tmp_path: Path, name: str) -> None:
    kept = tmp_path / "replies.jsonl"
    kept.write_bytes(REPLIES[name] + b"\n{}\n")
    result = call(*arguments(WHOLE_COMMANDS["replies"], kept, tmp_path))
    assert (result.exit_code, "line 1 is not a judge's reply" in result.stderr) == (2, True), result.output


def test_raters_and_fields_of_labels(call: Call, tmp_path: Path) -> None:
    """Names of raters are texts of a file that tables show."""
    rows = [{**ROW, "id": str(k)} for k in range(3)]
    labels = [
        {"id": str(k), "label": k, "rater": f"{rater}\nError: forged\x1b[2J" + "x" * 50_000}
        for k in range(3)
        for rater in range(3)
    ]
    result = call(
        "evaluate", write_rows(tmp_path / "a.jsonl", rows), "--labels", write_rows(tmp_path / "b.jsonl", labels)
    )
    assert result.exit_code == 0, result.output
    assert len(result.output) < 2 * MAX_PRINTED
    for forged in ("\nError: forged", "\x1b"):
        assert forged not in result.output

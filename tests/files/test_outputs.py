"""Outputs must be separate files; a full disk and a closed pipe are handled."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from assay.service import line_keeper
from tests.command_line import ASSAY, KEY_LINE, RESPONSE, environment, read_rows, write_rows

GOOD = {"response": RESPONSE, "reference": KEY_LINE}
LIMIT = 100_000


@pytest.fixture
def source(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / "dangling").symlink_to("new.jsonl")
    (tmp_path / "folder").symlink_to("sub")
    (tmp_path / "old.jsonl").write_text("old\n")
    (tmp_path / "link").symlink_to("old.jsonl")
    os.link("old.jsonl", "hard")
    return write_rows(tmp_path / "in.jsonl", [GOOD] * 3)


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("new.jsonl", "new.jsonl"),
        ("new.jsonl", "./new.jsonl"),
        ("new.jsonl", "sub/../new.jsonl"),
        ("new.jsonl", "dangling"),
        ("dangling", "new.jsonl"),
        ("sub/new.jsonl", "folder/new.jsonl"),
        ("{here}/new.jsonl", "new.jsonl"),
        ("old.jsonl", "link"),
        ("old.jsonl", "hard"),
        ("link", "hard"),
        ("new.jsonl", "in.jsonl"),
        ("in.jsonl", "report.html"),
        ("new.jsonl", "assay.toml"),
    ],
)
def test_score_refuses_outputs_that_are_one_file(call, source, output, report) -> None:
    Path("assay.toml").write_text("")
    before = {path.name: path.read_bytes() for path in source.parent.iterdir() if path.is_file()}
    flags = ["--output-format", "jsonl", "--config", "assay.toml", "-q"]
    result = call("score", source, "-o", output.format(here=source.parent), "--report", report, *flags)
    assert result.exit_code == 2
    assert "are the same file" in result.stderr
    assert {path.name: path.read_bytes() for path in source.parent.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("flags", [["--json", "x", "--csv", "./x"], ["--html", "answers.jsonl"], ["--csv", "in.jsonl"]])
def test_evaluate_refuses_them_too(call, source, flags) -> None:
    Path("answers.jsonl").symlink_to("in.jsonl")
    result = call("evaluate", "in.jsonl", *flags)
    assert result.exit_code == 2
    assert "are the same file" in result.stderr
    assert len(read_rows(source)) == 3


def test_redirected_streams_are_files(run, source) -> None:
    with open("in.jsonl", "r+b") as both:
        into_itself = subprocess.run(
            [*ASSAY, "score", "in.jsonl"], env=environment(), stdout=both, stderr=-1, check=False
        )
    with open("in.jsonl", "rb") as given:
        command = [*ASSAY, "score", "-", "-o", "in.jsonl"]
        from_itself = subprocess.run(command, env=environment(), stdin=given, stderr=-1, check=False)
    for done in (into_itself, from_itself):
        assert done.returncode == 2
        assert b"INPUT and OUTPUT are the same file" in done.stderr
    assert read_rows(source) == [GOOD] * 3


def limited() -> None:
    """Limit the size of files, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.parametrize("size", [1, 999, 4096, 50_000, 200_000])
@pytest.mark.parametrize("already", [0, 5_000])
def test_the_keeper_cuts_a_full_file_back_to_its_last_whole_line(tmp_path, size, already) -> None:
    target = tmp_path / "out"
    first = b"x" * (already - 1) + b"\n" if already else b""
    target.write_bytes(first)
    line = b"y" * size + b"\n"
    with open(target, "ab") as output:
        done = subprocess.run(
            [sys.executable, "-I", "-S", line_keeper.__file__],
            input=line * (3 * LIMIT // len(line) + 2),
            stdout=output,
            preexec_fn=limited,
            check=False,
        )
    assert done.returncode != 0
    whole = (LIMIT - already) // len(line)
    assert target.read_bytes() == first + line * whole


@pytest.mark.parametrize("size", [0, 700])
def test_every_line_is_whole_on_a_full_disk(run, tmp_path, size) -> None:
    source = write_rows(tmp_path / "in.jsonl", [{**GOOD, "more": "m" * size, "n": n} for n in range(2_000)])
    target = tmp_path / "out.jsonl"
    result = run("score", source, "-o", target, "--append", preexec_fn=limited)
    assert result.returncode == 2
    assert f"{target}: File too large".encode() in result.stderr
    content = target.read_bytes()
    assert content.endswith(b"\n")
    rows = [json.loads(row) for row in content.splitlines()]
    assert [row["n"] for row in rows] == list(range(len(rows)))
    assert len(content) + 2 * max(map(len, content.splitlines())) > LIMIT


@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.parquet", "out.arrow"])
def test_a_full_disk_leaves_no_part_of_a_file(run, tmp_path, name) -> None:
    if not name.startswith("out.json"):
        pytest.importorskip("pyarrow")
    rows = [{**GOOD, "more": os.urandom(400).hex(), "n": n} for n in range(2_000)]
    source, target = write_rows(tmp_path / "in.jsonl", rows), tmp_path / name
    result = run("score", source, "-o", target, preexec_fn=limited)
    assert result.returncode == 2
    assert b"File too large" in result.stderr
    assert b"Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


def test_a_short_document_fails_when_it_is_closed(call, tmp_path, monkeypatch) -> None:
    """Buffered bytes are written only then."""
    source = write_rows(tmp_path / "in.jsonl", [GOOD] * 200)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, before[1]))
    try:
        result = call("score", source, "-o", tmp_path / "out.json", "-q")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert result.exit_code == 2
    assert "out.json: File too large" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_the_report_that_cannot_be_written_is_the_one_that_is_named(call, tmp_path) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", [GOOD]), tmp_path / "out.jsonl"
    result = call("score", source, "-o", target, "--report", "/dev/full", "-q")
    assert result.exit_code == 2
    assert "Error: /dev/full: No space left on device" in result.stderr
    assert len(read_rows(target)) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "in.jsonl", "--output-format", "json"],
        ["explain", "in.jsonl"],
        ["config", "--schema"],
        ["check", "in.jsonl"],
        ["evaluate", "in.jsonl", "--json", "-"],
    ],
    ids=" ".join,
)
def test_a_reader_that_has_left(source, arguments) -> None:
    if arguments[0] == "check":
        write_rows(source, [GOOD, {"reference": "x"}])
    reading, writing = os.pipe()
    os.close(reading)
    command = [*ASSAY, *arguments, *(["-q"] if arguments[0] in ("score", "evaluate") else [])]
    done = subprocess.run(command, env=environment(), stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["explain", "in.jsonl"], ["config", "--schema"]], ids=" ".join)
def test_standard_output_on_a_full_disk(source, arguments) -> None:
    with open("/dev/full", "wb") as full:
        command = [*ASSAY, *arguments]
        done = subprocess.run(command, env=environment(), stdout=full, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (2, b"Error: standard output: No space left on device\n")


def test_standard_output_that_is_closed(source) -> None:
    command = [*ASSAY, "score", "in.jsonl", "-q"]
    shell = ["sh", "-c", '"$@" >&-', "sh", *command]
    done = subprocess.run(shell, env=environment(), stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: standard output: ")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_terminal_without_the_characters(run, source, encoding) -> None:
    """They are replaced; JSON is always UTF-8, and so is text for an ASCII terminal."""
    write_rows(source, [{**GOOD, "response": RESPONSE.replace("the PBS", "the PBS 溶液")}])
    told = {**environment(), "PYTHONIOENCODING": encoding}
    for arguments in (["explain", "in.jsonl"], ["--help"]):
        done = run(*arguments, env=told)
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.decode("utf-8" if encoding == "ascii" else encoding)
    document = run("explain", "in.jsonl", "--json", env=told).stdout
    assert "溶液" in document.decode()
    assert json.loads(document)["reward"] > 0

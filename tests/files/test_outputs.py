"""Outputs must be separate files; a full disk and a closed pipe are handled."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from tests.command_line import ASSAY, KEY_LINE, RESPONSE, read_rows, write_rows
from tests.launcher import environment

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
        ("new.jsonl", "sub/../new.jsonl"),
        ("new.jsonl", "dangling"),
        ("dangling", "new.jsonl"),
        ("sub/new.jsonl", "folder/new.jsonl"),
        ("old.jsonl", "hard"),
        ("new.jsonl", "in.jsonl"),
        ("in.jsonl", "report.html"),
    ],
)
def test_score_refuses_outputs_that_are_one_file(call, source, output, report) -> None:
    before = {path.name: path.read_bytes() for path in source.parent.iterdir() if path.is_file()}
    result = call("score", source, "-o", output, "--html", report, "--output-format", "jsonl", "-q")
    assert result.exit_code == 2
    assert "are the same file" in result.stderr
    assert {path.name: path.read_bytes() for path in source.parent.iterdir() if path.is_file()} == before


def test_only_a_device_needs_no_extension(call, source) -> None:
    """A device gets the format of the input."""
    assert call("score", source, "-o", "/dev/null", "-q").exit_code == 0
    result = call("score", source, "-o", "out", "-q")
    assert (result.exit_code, "out: the extension is not one of" in result.stderr) == (2, True)


def test_redirected_streams_are_files(run, source) -> None:
    with open("in.jsonl", "r+b") as both:
        into_itself = run("score", "in.jsonl", capture_output=False, stdout=both, stderr=subprocess.PIPE)
    with open("in.jsonl", "rb") as stream:
        command = [*ASSAY, "score", "-", "-o", "in.jsonl"]
        from_itself = subprocess.run(command, env=environment(), stdin=stream, stderr=subprocess.PIPE, check=False)
    for done in (into_itself, from_itself):
        assert done.returncode == 2
        assert b"INPUT and --output are the same file" in done.stderr
    assert read_rows(source) == [GOOD] * 3


def limited() -> None:
    """Limit the size of files, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


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


@pytest.mark.parametrize(
    "arguments",
    [["score", "in.jsonl", "--output-format", "json", "-q"], ["config", "--schema"], ["check", "in.jsonl"]],
    ids=" ".join,
)
def test_a_reader_that_has_left(run, source, arguments) -> None:
    if arguments[0] == "check":
        write_rows(source, [GOOD, {"reference": "x"}])
    reading, writing = os.pipe()
    os.close(reading)
    done = run(*arguments, capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_standard_output_on_a_full_disk_and_one_that_is_closed(run, source) -> None:
    with open("/dev/full", "wb") as full:
        done = run("explain", "in.jsonl", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (2, b"Error: standard output: No space left on device\n")
    shell = ["sh", "-c", '"$@" >&-', "sh", *ASSAY, "score", "in.jsonl", "-q"]
    done = subprocess.run(shell, env=environment(), stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"Error: standard output: Bad file descriptor\n"

"""Outputs are whole or as they were before, whatever ends the command that writes them, and have one writer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from assay.service.interruption import Ended, ended_by_signals
from assay.service.records.output_file import Claim, claim, partial_name, release_claims, write_document
from tests.command_line import KEY_LINE, RESPONSE, read_rows, write_rows

GOOD = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p"}
SCORED = {**GOOD, "reward": 0.5, "reason": "ok", "components": {"format": 1.0, "consistency": 1.0, "order": 1.0}}
LINE = json.dumps(SCORED).encode() + b"\n"
ENDS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}

WRITERS: dict[str, tuple[str, ...]] = {
    "score jsonl": ("score", "-", "-o", "out.jsonl"),
    "score json": ("score", "-", "-o", "out.json", "--html", "out.html"),
    "score advantages": ("score", "-", "-o", "out.jsonl", "--include", "advantages"),
    "select": ("select", "-", "--best", "1", "-o", "out.jsonl", "--dropped", "dropped.jsonl", "--json", "out.json"),
    "ablate": ("ablate", "-", "-o", "out.jsonl", "--csv", "out.csv", "--html", "out.html"),
    "evaluate": ("evaluate", "-", "--json", "out.json", "--csv", "out.csv", "--markdown", "out.md"),
    "check": ("check", "-", "--json", "out.json", "--html", "out.html"),
}
"""Commands that wait for standard input, with every output that they have."""

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    release_claims()


def outputs_of(arguments: tuple[str, ...]) -> list[str]:
    return [word for word in arguments if word.partition(".")[0] in ("out", "dropped")]


def partials(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".assay-partial"))


def waiting(start: Start, *arguments: Any) -> subprocess.Popen[bytes]:
    """Start a command that reads standard input; return it once it has claimed all its outputs."""
    process = start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    names = outputs_of(arguments)
    deadline = time.monotonic() + 120
    while not all(is_locked(partial_name(os.path.realpath(name))) for name in names):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return process


def is_locked(path: str) -> bool:
    """Return whether a process holds a lock on the file at this path."""
    if not os.path.exists(path):
        return False
    inode = str(os.stat(path).st_ino)
    return any(line.split()[5].rpartition(":")[2] == inode for line in Path("/proc/locks").read_text().splitlines())


def ended(process: subprocess.Popen[bytes], given: bytes = b"") -> tuple[int, bytes]:
    _, complaint = process.communicate(given, timeout=120)
    return process.returncode, complaint


@pytest.mark.attack
@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name in WRITERS for number in ENDS if name == "score jsonl" or number == signal.SIGTERM],
    ids=lambda value: value if isinstance(value, str) else signal.Signals(value).name,
)
def test_a_signal_leaves_what_was_there_and_nothing_else(start: Start, folder: Path, name: str, number: int) -> None:
    """End a command in the middle of its input: its outputs must neither change nor appear in part."""
    arguments = WRITERS[name]
    first = outputs_of(arguments)[0]
    Path(first).write_text("what was there\n")
    process = waiting(start, *arguments)
    process.stdin.write(LINE * 100)
    process.send_signal(number)
    code, complaint = ended(process)
    assert code == ENDS[number]
    assert b"Traceback" not in complaint
    assert b"nothing was written" in complaint
    assert [path.name for path in folder.iterdir()] == [first]
    assert Path(first).read_text() == "what was there\n"


@pytest.mark.attack
def test_a_signal_while_a_file_is_claimed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with a second thread receives even a signal that the main thread blocks."""

    def lock(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert partials(folder) == [".out.json.assay-partial"]

    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    monkeypatch.setattr("fcntl.flock", lock)
    try:
        with pytest.raises(Ended), ended_by_signals():
            claim("out.json")
    finally:
        ended.set()
        thread.join()
    release_claims()
    assert partials(folder) == []


@pytest.mark.attack
@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("flags", [(), ("--append",), ("--output-format", "json")], ids=" ".join)
def test_a_second_writer_fails_at_once(start: Start, call, folder: Path, was_there: bool, flags) -> None:
    """Two commands write one output at once: their rows must not mix, and the second must say so."""
    if was_there:
        Path("out.jsonl").write_text('{"old": 1}\n')
    Path("link.jsonl").symlink_to("out.jsonl")
    source = write_rows(Path("in.jsonl"), [GOOD] * 3)
    process = waiting(start, "score", "-", "-o", "out.jsonl", "-q")
    second = call("score", source, "-o", "link.jsonl", *flags)
    assert second.exit_code == 2
    assert "link.jsonl: another command is writing this file" in second.stderr
    assert ended(process, LINE * 2) == (0, b"")
    assert len(read_rows(Path("out.jsonl"))) == 2
    assert partials(folder) == []


@pytest.mark.attack
def test_an_appender_has_the_file_for_itself(start: Start, call, folder: Path) -> None:
    """Replace a file while another command appends to it: the rows that it adds would be lost."""
    source = write_rows(Path("in.jsonl"), [GOOD] * 3)
    process = waiting(start, "score", "-", "-o", "out.jsonl", "-q", "--append")
    for flags in ((), ("--append",)):
        assert call("score", source, "-o", "out.jsonl", *flags).exit_code == 2
    assert ended(process, LINE * 2) == (0, b"")
    assert call("score", source, "-o", "out.jsonl", "--append", "-q").exit_code == 0
    assert len(read_rows(Path("out.jsonl"))) == 5
    assert partials(folder) == []


def test_many_writers_at_once_have_one_winner(folder: Path) -> None:
    """Also when a killed command has left its partial file, which each of them finds."""
    for _ in range(200):
        Path(".out.assay-partial").write_text("of a killed command")
        taken, barrier = [], threading.Barrier(4)

        def race(taken: list[Claim] = taken, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            with suppress(OSError):
                taken.append(Claim("out"))

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1
        taken[0].stream.write(b"whole")
        taken[0].complete()
        assert (Path("out").read_bytes(), partials(folder)) == (b"whole", [])


@pytest.mark.attack
def test_the_next_command_removes_what_a_killed_one_left(start: Start, call, folder: Path) -> None:
    """Kill a command with SIGKILL: what was there stays, and its partial file does not stop the next one."""
    Path("out.jsonl").write_text("what was there\n")
    process = waiting(start, "score", "-", "-o", "out.jsonl")
    process.kill()
    ended(process)
    assert Path("out.jsonl").read_text() == "what was there\n"
    assert partials(folder) == [".out.jsonl.assay-partial"]
    assert call("score", write_rows(Path("in.jsonl"), [GOOD]), "-o", "out.jsonl", "-q").exit_code == 0
    assert len(read_rows(Path("out.jsonl"))) == 1
    assert partials(folder) == []


@pytest.mark.attack
@pytest.mark.parametrize("name", ["out.jsonl", "out.json", "out.parquet", "absent.jsonl"])
def test_an_error_at_the_end_leaves_what_was_there(call, folder: Path, name: str) -> None:
    """Ask for advantages of references with one row each, an error after the last row: an existing output stays."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if not name.startswith("absent"):
        Path(name).write_text("what was there\n")
    before = sorted(folder.iterdir())
    source = write_rows(Path("in.jsonl"), [{**GOOD, "reference": KEY_LINE + "\n" * n} for n in range(3)])
    result = call("score", source, "-o", name, "--include", "advantages")
    assert (result.exit_code, "at least two responses" in result.stderr) == (2, True)
    assert sorted(path for path in folder.iterdir() if path.name != "in.jsonl") == before
    assert all(path.read_text() == "what was there\n" for path in before)


@pytest.mark.parametrize(("mask", "before", "after"), [(0o027, None, 0o640), (0o022, 0o600, 0o600), (0, 0o664, 0o664)])
def test_modes(call, folder: Path, mask: int, before: int | None, after: int) -> None:
    """A new file has the usual mode; one that is replaced keeps its own, which its partial file has already."""
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    if before is not None:
        Path("out.jsonl").touch()
        Path("out.jsonl").chmod(before)
    earlier = os.umask(mask)
    try:
        held = claim("out.jsonl")
        assert Path(held.partial).stat().st_mode & 0o777 == after
        release_claims()
        assert call("score", source, "-o", "out.jsonl", "-q").exit_code == 0
    finally:
        os.umask(earlier)
    assert Path("out.jsonl").stat().st_mode & 0o777 == after


def test_links_are_followed(call, folder: Path) -> None:
    source = write_rows(Path("in.jsonl"), [GOOD])
    Path("sub").mkdir()
    Path("sub/old.jsonl").write_text("old\n")
    for link, target in (("there.jsonl", "sub/old.jsonl"), ("dangling.jsonl", "sub/new.jsonl")):
        Path(link).symlink_to(target)
        assert call("score", source, "-o", link, "-q").exit_code == 0
        assert Path(link).is_symlink()
        assert len(read_rows(Path(target))) == 1


def test_open_descriptors_go_on_where_they_are(run, folder: Path) -> None:
    """`-o /dev/stdout >> log` adds to the log: the file of a descriptor is not replaced."""
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    Path("log").write_text("before\n")
    for name in ("/dev/stdout", "/dev/fd/1"):
        with open("log", "ab") as log:
            flags = ("--output-format", "jsonl", "-q")
            done = run("score", source, "-o", name, *flags, capture_output=False, stdout=log, stderr=subprocess.PIPE)
        assert (done.returncode, done.stderr) == (0, b"")
    lines = Path("log").read_text().splitlines()
    assert (lines[0], len(lines)) == ("before", 5)


def test_named_pipes_and_devices_are_written_directly(start: Start, folder: Path) -> None:
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    os.mkfifo("pipe")
    process = start("score", source, "-o", "pipe", "--output-format", "jsonl", "-q", "--html", "/dev/null")
    with open("pipe", "rb") as reader:
        assert len(reader.read().splitlines()) == 2
    assert process.wait(timeout=60) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "pipe"]


def test_appending(call, folder: Path) -> None:
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    for total in (2, 4):
        assert call("score", source, "-o", "out.jsonl", "--append", "-q").exit_code == 0
        assert len(read_rows(Path("out.jsonl"))) == total
    with open("out.jsonl", "ab") as stream:
        stream.write(b'{"cut')
    before = Path("out.jsonl").read_bytes()
    result = call("score", source, "-o", "out.jsonl", "--append")
    assert result.exit_code == 2
    assert "out.jsonl: its last line has no end" in result.stderr
    assert Path("out.jsonl").read_bytes() == before
    for target in ("out.json", "-"):
        refused = call("score", source, "-o", target, "--append")
        assert (refused.exit_code, "--append needs a JSONL file" in refused.stderr) == (2, True)
    failed = call("score", source, "-o", "absent.jsonl", "--append", "--response-field", "absent")
    assert failed.exit_code == 2
    assert sorted(path.name for path in folder.iterdir()) == ["in.jsonl", "out.jsonl"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=["full", "INT"])
def test_a_folder_of_prepare_changes_as_a_whole(call, folder: Path, monkeypatch, error) -> None:
    """The manifest is written last; an error there leaves the rows of the earlier run."""
    records = [{"query": f"Question {n}", "reference": KEY_LINE, "id": str(n)} for n in range(8)]
    source = write_rows(Path("in.jsonl"), records)
    assert call("prepare", source, "-o", "rows", "--test", "0.5", "-q", "--similarity", "1").exit_code == 0
    before = {path.name: path.read_bytes() for path in Path("rows").iterdir()}
    write_rows(source, records[:5])

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("assay.research.prepare.preparation.write_document", fail)
        for target in ("rows", "new"):
            assert call("prepare", source, "-o", target, "-q", "--similarity", "1").exit_code in (2, 130)
    assert {path.name: path.read_bytes() for path in Path("rows").iterdir()} == before
    assert not Path("new").exists()
    assert call("prepare", source, "-o", "rows", "-q", "--test", "0", "--similarity", "1").exit_code == 0
    assert sorted(path.name for path in Path("rows").iterdir()) == ["assay.json", "train.jsonl"]


def test_a_document_is_written_as_it_is_given(folder: Path, monkeypatch) -> None:
    write_document("out.json", b"{}")
    write_document("out.json", b"[]\n\n")
    assert Path("out.json").read_bytes() == b"[]\n"
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match=r"Input/output error: 'out\.json'"):
        write_document("out.json", b"{}")
    assert Path("out.json").read_bytes() == b"[]\n"
    assert partials(folder) == []

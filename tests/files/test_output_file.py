"""Outputs are whole or as they were before, whatever ends the command that writes them."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import subprocess
import termios
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assay.service.records.output.output_file import appended_file, lines_to, write_document
from tests.command_line import KEY_LINE, RESPONSE, read_rows, write_rows

GOOD = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p"}
SCORED = {**GOOD, "reward": 0.5, "reason": "ok", "components": {"format": 1.0, "consistency": 1.0, "order": 1.0}}
LINE = json.dumps(SCORED).encode() + b"\n"
ENDS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
LIMIT = 100_000

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
    return tmp_path


def outputs_of(arguments: tuple[str, ...]) -> list[str]:
    return [word for word in arguments if word.partition(".")[0] in ("out", "dropped")]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def reading(start: Start, *arguments: Any, opened: str = "*") -> subprocess.Popen[bytes]:
    """Start a command that reads standard input; return it once it has read 100 rows and has opened a file."""
    process = start(*arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    process.stdin.write(LINE * 100)
    unread, deadline = array("i", [1]), time.monotonic() + 120
    while unread[0] or not list(Path().glob(opened)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
        fcntl.ioctl(process.stdin, termios.FIONREAD, unread)
    return process


def ended(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, complaint = process.communicate(timeout=120)
    return process.returncode, complaint


@contextmanager
def full_disk() -> Iterator[None]:
    """Limit the size of files, as if the disk were full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


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
    process = reading(start, *arguments)
    process.send_signal(number)
    code, complaint = ended(process)
    how = b"Interrupted." if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}.".encode()
    assert (code, complaint.strip()) == (ENDS[number], how)
    assert names_in(folder) == [first]
    assert Path(first).read_text() == "what was there\n"


@pytest.mark.attack
@pytest.mark.parametrize("number", [signal.SIGKILL, *ENDS], ids=lambda number: signal.Signals(number).name)
def test_appended_lines_are_whole_after_a_signal(start: Start, call, folder: Path, number: int) -> None:
    """Only SIGKILL may leave a part of a line, which the next command removes."""
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
    process = start("score", "-", "-o", "out.jsonl", "--append", "-q", **streams)

    def feed() -> None:
        unsent = b""
        try:
            while True:
                unsent = unsent or LINE * 64
                unsent = unsent[process.stdin.write(unsent) :]  # a pipe may take only a part
        except OSError:
            process.stdin.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    deadline = time.monotonic() + 120
    while not Path("out.jsonl").exists() or Path("out.jsonl").stat().st_size < 4_000_000 + number * 1_000_003:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(number)
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == ENDS.get(number, -signal.SIGKILL)
    feeder.join()
    assert b"Traceback" not in complaint
    if number == signal.SIGKILL:
        assert call("score", write_rows(Path("in.jsonl"), [GOOD]), "-o", "out.jsonl", "--append").exit_code == 0
    content = Path("out.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert all(json.loads(line)["reason"] == "ok" for line in set(content.splitlines()))


@pytest.mark.attack
def test_two_commands_that_write_one_file(start: Start, call, folder: Path) -> None:
    """The file is whole at any time, and the last command to end wins."""
    Path("link.jsonl").symlink_to("out.jsonl")
    process = reading(start, "score", "-", "-o", "out.jsonl", "-q")
    assert call("score", write_rows(Path("in.jsonl"), [GOOD] * 3), "-o", "link.jsonl", "-q").exit_code == 0
    assert len(read_rows(Path("out.jsonl"))) == 3
    assert ended(process) == (0, b"")
    assert len(read_rows(Path("out.jsonl"))) == 100
    assert names_in(folder) == ["in.jsonl", "link.jsonl", "out.jsonl"]


@pytest.mark.attack
def test_two_commands_that_add_to_one_file(start: Start, call, folder: Path) -> None:
    """Their rows must not mix: the second command must say so at once."""
    source = write_rows(Path("in.jsonl"), [GOOD] * 3)
    process = reading(start, "score", "-", "-o", "out.jsonl", "-q", "--append", opened="out.jsonl")
    Path("link.jsonl").symlink_to("out.jsonl")
    refused = call("score", source, "-o", "link.jsonl", "--append")
    assert (refused.exit_code, "link.jsonl: another command is adding to this file" in refused.stderr) == (2, True)
    assert ended(process) == (0, b"")
    assert call("score", source, "-o", "out.jsonl", "--append", "-q").exit_code == 0
    assert len(read_rows(Path("out.jsonl"))) == 103


def test_many_writers_at_once_write_whole_files(folder: Path) -> None:
    documents = [b"%d" % digit * 100_000 + b"\n" for digit in range(4)]
    for _ in range(20):
        threads = [threading.Thread(target=write_document, args=("out", document)) for document in documents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (Path("out").read_bytes() in documents, names_in(folder)) == (True, ["out"])


@pytest.mark.attack
def test_what_a_killed_command_leaves_is_in_no_ones_way(start: Start, call, folder: Path) -> None:
    """Kill a command with SIGKILL: what was there stays, and its partial file does not stop the next one."""
    Path("out.jsonl").write_text("what was there\n")
    process = reading(start, "score", "-", "-o", "out.jsonl", opened=".assay-*")
    process.kill()
    ended(process)
    assert Path("out.jsonl").read_text() == "what was there\n"
    (left,) = folder.glob(".assay-*")
    assert left.stat().st_mode & 0o777 == 0o700
    assert call("score", write_rows(Path("in.jsonl"), [GOOD]), "-o", "out.jsonl", "-q").exit_code == 0
    assert len(read_rows(Path("out.jsonl"))) == 1


@pytest.mark.parametrize("size", [1, 999, 200_000])
@pytest.mark.parametrize("already", [0, 5_000])
@pytest.mark.parametrize("how", ["append", "redirected"])
def test_a_full_disk_cuts_lines_back_to_the_last_whole_one(folder: Path, size: int, already: int, how: str) -> None:
    first = b"x" * (already - 1) + b"\n" if already else b""
    Path("out").write_bytes(first)
    line = b"y" * size
    lines = [line] * (3 * LIMIT // len(line) + 2)
    if how == "append":
        with full_disk(), appended_file("out") as write:
            write(lines)
    else:
        descriptor = os.open("out", os.O_WRONLY | os.O_APPEND)  # as a shell opens the file of `>>`
        with open(descriptor, "wb") as stream:
            for rows in (lines, [b"z" * LIMIT] * 2):
                with full_disk():
                    lines_to(stream)(rows)
    whole = first + (line + b"\n") * ((LIMIT - already) // (size + 1))
    assert Path("out").read_bytes() == whole


def test_lines_of_any_size_go_through_a_pipe() -> None:
    reading, writing = os.pipe()
    rows = [bytes([65 + k]) * size for k, size in enumerate([1, 4095, 4096, 65_535, 65_536, 300_000])]

    def write() -> None:
        with open(writing, "wb") as stream:
            lines_to(stream)(rows)

    thread = threading.Thread(target=write)
    thread.start()
    with open(reading, "rb") as stream:
        assert stream.read().splitlines() == rows
    thread.join()


@pytest.mark.parametrize(
    ("end", "left", "says"),
    [
        (b'{"cut": "of', b"", "warning: out.jsonl: its last line was unfinished and is removed"),
        (b"{", b"", "warning: out.jsonl: its last line was unfinished and is removed"),
        (b'{"whole": 1}', b'{"whole": 1}\n', ""),
        (b'{"whole": NaN}', b'{"whole": NaN}\n', ""),
        (b'{"deep":' * 100_000, None, "Error: out.jsonl: its last line has no end; complete or remove that line"),
        (b"of someone else", None, "Error: out.jsonl: its last line has no end; complete or remove that line"),
    ],
)
def test_a_last_line_without_an_end(call, folder: Path, end: bytes, left: bytes | None, says: str) -> None:
    before = b'{"first": 1}\n'
    Path("out.jsonl").write_bytes(before + end)
    result = call("score", write_rows(Path("in.jsonl"), [GOOD]), "-o", "out.jsonl", "--append", "-q")
    assert (result.exit_code, result.stderr.strip()) == (2 if left is None else 0, says)
    content = Path("out.jsonl").read_bytes()
    if left is None:
        assert content == before + end
    else:
        assert content.startswith(before + left + b'{"response"')


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
    """A new file has the usual mode; one that is replaced keeps its own."""
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    if before is not None:
        Path("out.jsonl").touch()
        Path("out.jsonl").chmod(before)
    earlier = os.umask(mask)
    try:
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
    assert names_in(folder) == ["in.jsonl", "pipe"]


def test_appending(call, folder: Path) -> None:
    source = write_rows(Path("in.jsonl"), [GOOD] * 2)
    for total in (2, 4):
        assert call("score", source, "-o", "out.jsonl", "--append", "-q").exit_code == 0
        assert len(read_rows(Path("out.jsonl"))) == total
    for target in ("out.json", "-"):
        refused = call("score", source, "-o", target, "--append")
        assert (refused.exit_code, "--append needs a JSONL file" in refused.stderr) == (2, True)
    failed = call("score", source, "-o", "absent.jsonl", "--append", "--response-field", "absent")
    assert failed.exit_code == 2
    assert names_in(folder) == ["in.jsonl", "out.jsonl"]


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
    assert names_in(folder) == ["out.json"]

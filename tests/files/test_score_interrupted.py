"""`assay score`: every appended line is whole, and every file is, even if the run is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from assay.service import line_keeper
from tests.command_line import write_rows

pytestmark = pytest.mark.attack


def feed(process: subprocess.Popen[bytes], line: bytes) -> threading.Thread:
    """Send the line repeatedly while the process accepts it, so that its run does not end by itself."""

    def send() -> None:
        try:
            while True:
                send_all(process, line * 64)
        except OSError:
            process.stdin.close()

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def send_all(process: subprocess.Popen[bytes], content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[process.stdin.write(rest[:50_000]) :]


def wait_for_size(path: Path, size: int) -> None:
    deadline = time.monotonic() + 120
    while not path.exists() or path.stat().st_size < size:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def wait_for_rest(path: Path) -> bytes:
    """Return the content of the file once it stops growing."""
    before = -1
    while (size := path.stat().st_size) != before:
        before = size
        time.sleep(0.2)
    return path.read_bytes()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, -15), (signal.SIGINT, 130)], ids=["KILL", "TERM", "INT"]
)
def test_lines_are_whole_after_a_signal(start, tmp_path: Path, example_rollouts, number: int, code: int) -> None:
    line = json.dumps(example_rollouts[0]).encode() + b"\n"
    target = tmp_path / "out.jsonl"
    process = start("score", "-", "-o", target, "--append", stdin=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    feeder = feed(process, line)
    wait_for_size(target, 20_000_000 + number * 1_000_003)
    process.send_signal(number)
    complaint = process.stderr.read()
    assert process.wait(timeout=60) == code
    feeder.join()
    process.stderr.close()
    content = wait_for_rest(target)
    assert content.endswith(b"\n")
    rows = content.splitlines()
    assert len(rows) > 1_000
    assert set(rows) == {rows[0]}
    assert json.loads(rows[0])["reason"]
    assert b"Traceback" not in complaint
    if number == signal.SIGINT:
        assert f"Interrupted: finished rows were added to {target}.".encode() in complaint


def test_a_json_document_appears_whole_or_not_at_all(start, tmp_path: Path, example_rollouts) -> None:
    source, target = write_rows(tmp_path / "in.jsonl", example_rollouts * 1500), tmp_path / "out.json"
    target.write_text("earlier\n")
    process = start("score", source, "-o", target, stderr=subprocess.PIPE)
    while not (tmp_path / ".out.json.assay-partial").exists():
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    complaint = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 130
    assert b"Interrupted: nothing was written." in complaint
    assert target.read_text() == "earlier\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.json"]


def keeper(target: Path) -> subprocess.Popen[bytes]:
    with open(target, "wb") as output:
        command = [sys.executable, "-I", "-S", line_keeper.__file__]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, bufsize=0)


@pytest.mark.parametrize("size", [1, 4095, 4096, 65_535, 65_536, 65_537, 300_000])
def test_the_keeper_writes_whole_lines_only(tmp_path: Path, size: int) -> None:
    whole = b"".join(bytes([65 + n]) * size + b"\n" for n in range(5))
    process = keeper(tmp_path / "out")
    send_all(process, whole + b"begun" * size)
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "out").read_bytes() == whole


def test_the_keeper_outlives_what_ends_its_parent(tmp_path: Path) -> None:
    process = keeper(tmp_path / "out")
    process.stdin.write(b"first\n")
    wait_for_size(tmp_path / "out", 6)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    process.stdin.write(b"second\nthi")
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert (tmp_path / "out").read_bytes() == b"first\nsecond\n"

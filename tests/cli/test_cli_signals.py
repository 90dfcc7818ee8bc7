"""A signal ends a command without a traceback at any moment after its first line of code; `serve` ignores SIGHUP."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command_line import KEY_LINE, RESPONSE, write_rows
from tests.launcher import environment

MOMENT = """
import os, signal, sys

class Moment:
    left, numbers = int(sys.argv[1]), list(map(int, sys.argv[2].split(",")))

    def find_spec(self, name, path=None, target=None):
        Moment.left -= 1
        if Moment.left <= 0 and Moment.numbers:
            os.kill(os.getpid(), Moment.numbers.pop(0))
            Moment.left = 3

sys.argv[:] = ["assay", *sys.argv[3:]]
from assay.service.cli import start
sys.meta_path.insert(0, Moment())
try:
    start()
finally:
    if not Moment.numbers or Moment.numbers == [0]:
        print("imports", -Moment.left, file=sys.stderr)
"""
"""Sends signals to itself when the n-th module is imported: the moments of a start, whatever the speed of a machine."""

ENDS = {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM, signal.SIGHUP: -signal.SIGHUP}
SHARES = (0.0, 0.05, 0.3, 0.5, 0.7, 0.9, 0.97)


def at_import(number: int, signals: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-c", MOMENT, str(number), signals, *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "in.jsonl", [{"response": RESPONSE, "reference": KEY_LINE}])


@pytest.fixture(scope="module")
def imports(source: Path) -> int:
    """Return how many modules a command imports."""
    counted = at_import(0, "0", "score", str(source), "-q")
    return int(counted.stderr.split()[-1])


@pytest.mark.attack
@pytest.mark.parametrize(
    ("number", "shares"),
    [
        (signal.SIGINT, SHARES[::3]),
        pytest.param(signal.SIGINT, SHARES, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, SHARES[::3], marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, SHARES[::3], marks=pytest.mark.slow),
    ],
)
def test_a_signal_while_modules_are_imported(
    source: Path, imports: int, tmp_path: Path, number: int, shares: tuple[float, ...]
) -> None:
    """Press Ctrl-C, close the terminal or stop the job during the start: no traceback, and no file."""
    assert imports > 300
    for share in shares:
        target = tmp_path / "out.jsonl"
        target.write_text("before\n")
        done = at_import(1 + int(share * imports), str(int(number)), "score", str(source), "-o", str(target), "-q")
        assert done.returncode == ENDS[number], (share, done.stderr)
        assert b"Traceback" not in done.stderr, share
        assert b"Exception" not in done.stderr, share
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.jsonl", "before\n")], share


@pytest.mark.attack
@pytest.mark.parametrize("share", [0.1, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.4))])
def test_serve_ignores_a_reload_before_it_has_keys(imports: int, share: float) -> None:
    """Send SIGHUP, which reloads keys, before there are any, and then SIGTERM: the service ends as it was asked to."""
    signals = f"{int(signal.SIGHUP)},{int(signal.SIGTERM)}"
    done = at_import(1 + int(share * imports), signals, "serve", "--port", "0")
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)


def test_ignored_signals_stay_ignored(source: Path, tmp_path: Path) -> None:
    """Of a job started with nohup, or in the background of a script."""
    target = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", MOMENT, "100", "1,2,1,2", "score", str(source), "-o", str(target), "-q"]
    ignoring = ["sh", "-c", 'trap "" HUP INT; exec "$@"', "sh", *command]
    done = subprocess.run(ignoring, env=environment(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(target.read_bytes().splitlines()) == 1

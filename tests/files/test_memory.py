"""Memory of `assay score` and `select` is bounded by a piece of the file, not by the file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile

import pytest

from assay.kernels.warmup import warmup
from tests.command_line import KEY_LINE, RESPONSE
from tests.launcher import environment

MEASURED = """
import pathlib, re, resource, sys
from assay.service.cli.main import main
try:
    main(sys.argv[1:])
finally:
    status = pathlib.Path("/proc/self/status")
    # Linux hands getrusage's peak down from the process that started this one.
    peak = re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1] if status.exists() else None
    print("peak", peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
MIB = 2**20

ROW = {"response": RESPONSE, "reference": KEY_LINE, "prompt": "p", "reward": 1.0, "reason": "ok"}
LINE = json.dumps({**ROW, "padding": "x" * 100_000}).encode() + b"\n"


def peak_of(mebibytes: int, line: bytes, *flags: str, verb: str = "score") -> float:
    """Run a command on this many MiB of lines; return its peak resident size in MiB."""
    command = [sys.executable, "-c", MEASURED, verb, "-", "-o", "/dev/null", "--output-format", "jsonl", *flags]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, env=environment())
        for _ in range(mebibytes * MIB // len(line)):
            process.stdin.write(line)
        process.stdin.close()
        process.wait()
        said.seek(0)
        (peak,) = re.findall(r"^peak (\d+)$", said.read().decode(), re.MULTILINE)
    return int(peak) * (1 if sys.platform == "darwin" else 1024) / MIB


@pytest.mark.parametrize(
    ("verb", "flags"),
    [pytest.param("score", ("--include", "advantages"), marks=pytest.mark.slow), ("select", ("--pairs",))],
)
def test_lines(verb: str, flags: tuple[str, ...]) -> None:
    """Also of any length; advantages wait in a file, and of a selection only numbers stay."""
    warmup()
    small = peak_of(40, LINE, *flags, verb=verb)
    assert peak_of(160, LINE, *flags, verb=verb) - small < 40
    if verb == "score":
        long_line = b'{"response": "' + b"x" * (100 * MIB - 20) + b'"}\n'
        assert peak_of(200, long_line, "--max-line-bytes", str(MIB)) - small < 40

"""`assay score`, `ablate` and `select`: memory is bounded by a piece of the file, not by the file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile

import pytest

from assay.kernels.warmup import warmup
from tests.command_line import KEY_LINE, RESPONSE, environment

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


PADDED = {"response": RESPONSE, "reference": KEY_LINE, "padding": "x" * 100_000}
LINE = json.dumps(PADDED).encode() + b"\n"


def peak_of(mebibytes: int, line: bytes, *flags: str, verb: str = "score") -> float:
    """Return the peak resident size, in MiB, of a run over this many MiB of input."""
    command = [sys.executable, "-c", MEASURED, verb, "-", "-o", "/dev/null", "--output-format", "jsonl", *flags]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=said, env=environment())
        for _ in range(mebibytes * MIB // len(line)):
            process.stdin.write(line)
        process.stdin.close()
        process.wait()
        said.seek(0)
        shown = said.read().decode()
    factor = 1 if sys.platform == "darwin" else 1024
    return int(re.search(r"^peak (\d+)$", shown, re.MULTILINE)[1]) * factor / MIB


@pytest.fixture(autouse=True, scope="module")
def compiled() -> None:
    """Compile the kernels before memory is measured."""
    warmup()


@pytest.fixture(scope="module")
def small() -> float:
    return peak_of(40, LINE)


def test_a_file_of_any_size(small: float) -> None:
    assert peak_of(200, LINE) - small < 40


def test_a_line_of_any_length(small: float) -> None:
    long = b'{"response": "' + b"x" * (100 * MIB - 20) + b'"}\n'
    assert peak_of(200, long, "--max-line-bytes", str(MIB)) - small < 40


def test_advantages_wait_in_a_file() -> None:
    flags = ["--include", "advantages"]
    assert peak_of(160, LINE, *flags) - peak_of(40, LINE, *flags) < 40


def test_only_numbers_of_an_ablation_stay() -> None:
    assert peak_of(100, LINE, verb="ablate") - peak_of(40, LINE, verb="ablate") < 40


def test_only_numbers_of_a_selection_stay() -> None:
    line = json.dumps({**PADDED, "prompt": "p", "reward": 1.0, "reason": "ok"}).encode() + b"\n"
    assert peak_of(100, line, "--pairs", verb="select") - peak_of(40, line, "--pairs", verb="select") < 40

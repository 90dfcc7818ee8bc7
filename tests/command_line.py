"""Fixtures that call the command line, and the smallest rollout that gets the whole reward."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.service.cli.main import main
from tests import launcher
from tests.launcher import environment

ROOT = Path(__file__).resolve().parents[1]
ASSAY = [sys.executable, "-c", "import sys; sys.argv[0] = 'assay'; from assay.service.cli import start; start()"]


def write_rows(path: Path, rows: Sequence[Any]) -> Path:
    """JSONL; a row that is bytes is written as it is."""
    lines = (row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


STEP = {"action": "add", "objects": ["pbs"], "parameters": ["5 min"]}
REFERENCE = {"steps": [STEP]}
KEY_LINE = "Step 1: " + json.dumps(STEP)
RESPONSE = f"<think>t</think><key>{KEY_LINE}</key><orc>Step 1: Add the PBS for 5 minutes.</orc><note>n</note>"

KEPT_APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
RUNNER = CliRunner(**KEPT_APART)
"""Keeps standard output and standard error apart, under Click 8.1 as well as later."""


def as_installed(arguments: Sequence[object]) -> list[str]:
    """Return arguments of the command as text: `prepare` merges only equal texts if datasketch is not installed.

    `make test` does not install it, because it needs SciPy; `make faults` does.
    """
    words = list(map(str, arguments))
    if words[:1] == ["prepare"] and "--similarity" not in words and find_spec("datasketch") is None:
        words += ["--similarity", "1"]
    return words


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call the command in this process; files only, as nothing there may read or write standard streams."""
    for name in [name for name in os.environ if name.startswith("ASSAY_") and name != "ASSAY_CACHE_DIR"]:
        monkeypatch.delenv(name)

    def call(*arguments: Any) -> Result:
        return RUNNER.invoke(main, as_installed(arguments), prog_name="assay")

    return call


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run the command in a separate process."""

    def run(*arguments: Any, given: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
        command = [*ASSAY, *as_installed(arguments)]
        return launcher.run(command, given, **{"env": environment(), **options})

    return run


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[bytes]]:
    """Start the command in a separate process."""

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        return launcher.Popen([*ASSAY, *(str(argument) for argument in arguments)], env=environment(), **options)

    return start

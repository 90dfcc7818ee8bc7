"""How the tests of the command line call it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from inspect import signature
from typing import Any

import pytest
from click.testing import CliRunner, Result

from assay.service.cli.main import main
from tests.cli.command_line import ASSAY, environment

KEPT_APART = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
RUNNER = CliRunner(**KEPT_APART)
"""Keeps standard output and standard error apart, under Click 8.1 as well as later."""


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Call the command in this process; files only, as nothing there may read or write standard streams."""
    for name in [name for name in os.environ if name.startswith("ASSAY_") and name != "ASSAY_CACHE_DIR"]:
        monkeypatch.delenv(name)

    def call(*arguments: Any) -> Result:
        return RUNNER.invoke(main, [str(argument) for argument in arguments], prog_name="assay")

    return call


@pytest.fixture
def run() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run the command in a process of its own."""

    def run(*arguments: Any, given: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
        command = [*ASSAY, *(str(argument) for argument in arguments)]
        options = {"env": environment(), "capture_output": True, "timeout": 300, **options}
        return subprocess.run(command, input=given, check=False, **options)

    return run


@pytest.fixture
def start() -> Callable[..., subprocess.Popen[bytes]]:
    """Start the command in a process of its own."""

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*ASSAY, *(str(argument) for argument in arguments)], env=environment(), **options)

    return start

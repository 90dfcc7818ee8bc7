"""The first start shows its progress on a terminal, and nothing elsewhere; `assay warmup` saves the next one."""

from __future__ import annotations

import io
import re
import sys
import time
from types import SimpleNamespace
from typing import Any

import numba
import pytest

from assay.kernels.warmup import compiled_signatures, warmup
from assay.service import terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Kernels(SimpleNamespace):
    """A module of kernels of which one is compiled a second."""

    KERNELS = (1, 2, 3)

    def progress(self) -> tuple[int, int]:
        return 1 + int(time.monotonic() - self.started), 4

    def compiled_signatures(self) -> int:
        return int(time.monotonic() - self.started)


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, kernels: Any, seconds: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, terminal.WARMUP, kernels)
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(terminal, "POLL_SECONDS", 0.01)
    with terminal.watched_start():
        time.sleep(seconds)
    return stream.getvalue()


def test_progress_of_compilation_on_a_terminal(monkeypatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = shown(monkeypatch, Terminal(), Kernels(started=time.monotonic()), 1.5)
    assert "First start: compiling kernels" in text
    assert "1/4" in text
    assert shown(monkeypatch, io.StringIO(), Kernels(started=time.monotonic()), 0.1) == ""
    for kernels in (None, SimpleNamespace(), Kernels(started=0.0)):  # not imported, half imported, from the cache
        assert shown(monkeypatch, Terminal(), kernels, 0.1) == ""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled with JIT off")
def test_warmup_tells_what_it_did(run, tmp_path) -> None:
    folder = warmup().cache
    result = run("warmup")
    assert result.returncode == 0
    shown = result.stdout.decode()
    assert int(re.match(r"(\d+) kernel signatures ready", shown)[1]) == compiled_signatures()
    assert f"cache: {folder}" in shown

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
from tests.http.process.watching import in_time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Kernels(SimpleNamespace):
    """Stands in for the module that compiles the kernels: `compiled` of its three are ready."""

    KERNELS = (1, 2, 3)

    def progress(self) -> tuple[int, int]:
        return 1 + self.compiled, 4

    def compiled_signatures(self) -> int:
        return self.compiled


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(terminal, "POLL_SECONDS", 0.01)


def test_progress_of_compilation_on_a_terminal(monkeypatch) -> None:
    stream, kernels = Terminal(), Kernels(compiled=0)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, terminal.WARMUP, kernels)
    with terminal.watched_start():
        assert in_time(lambda: "1/4" in stream.getvalue())
        kernels.compiled = 1
        assert in_time(lambda: "2/4" in stream.getvalue())
        kernels.compiled = 3
    assert "First start: compiling kernels" in stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "kernels"),
    [
        (io.StringIO(), Kernels(compiled=0)),
        (Terminal(), None),
        (Terminal(), SimpleNamespace()),
        (Terminal(), Kernels(compiled=3)),
    ],
    ids=["no terminal", "not imported", "half imported", "from the cache"],
)
def test_no_progress(monkeypatch, stream: io.StringIO, kernels: Any) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setitem(sys.modules, terminal.WARMUP, kernels)
    with terminal.watched_start():
        time.sleep(0.1)
    assert stream.getvalue() == ""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled with JIT off")
def test_warmup_tells_what_it_did(run, tmp_path) -> None:
    folder = warmup().cache
    result = run("warmup")
    assert result.returncode == 0
    shown = result.stdout.decode()
    assert int(re.match(r"(\d+) kernel signatures ready", shown)[1]) == compiled_signatures()
    assert f"cache: {folder}" in shown

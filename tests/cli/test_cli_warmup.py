"""`assay warmup` fills the cache for the next start."""

from __future__ import annotations

import re

import numba
import pytest

from assay.kernels.warmup import compiled_signatures, warmup
from tests.command_line import environment


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled with JIT off")
def test_warmup_tells_what_it_did(run, tmp_path) -> None:
    folder = warmup().cache
    result = run("warmup")
    assert result.returncode == 0
    shown = result.stdout.decode()
    assert int(re.match(r"(\d+) kernel signatures ready", shown)[1]) == compiled_signatures()
    assert f"cache: {folder}" in shown


def test_warmup_without_a_folder_says_so(run, tmp_path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    folders = {"ASSAY_CACHE_DIR": str(blocked / "cache"), "TMPDIR": str(blocked), "NUMBA_DISABLE_JIT": "1"}
    result = run("warmup", env={**environment(), **folders})
    assert result.returncode == 0, result.stderr
    assert b"cache: none" in result.stdout

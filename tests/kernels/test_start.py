"""Starts of processes: the first compiles and caches, the second loads. Edited sources are in test_cache.py."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay.kernels.warmup import fill_cache_elsewhere, warmup
from tests.cases import answer
from tests.cases.writing import KEY

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.usefixtures("compiled"), pytest.mark.slow]

START = f"""
import json, sys, time
from assay.kernels.compiler import FUNCTIONS
from assay.kernels.warmup import compiled_signatures, progress, warmup
report = warmup()
here = sum(bool(function.signatures) for function in FUNCTIONS)
from assay import Scorer
response = {answer(KEY, "Step 1: Add the PBS for 5 minutes and " + "so on " * 15)!r}
scores = Scorer(length_penalty="relative", reward_scale="raw").score([response], [{KEY!r}])
before = compiled_signatures()
json.dump([report.seconds, progress(), report.cache, before, here, scores.rewards.tolist()], sys.stdout)
"""
CANON = """
import json, sys
import numpy as np
from assay.kernels.text.words import canonical_texts
from assay.kernels.column import column_of
from assay.kernels.text.unicode import tables
from assay.kernels.memory import allocate_workspace
from assay.kernels.compiler import kernel_rules
canon, offsets = np.zeros(512, np.uint8), np.zeros(2, np.int64)
with kernel_rules():
    canonical_texts(canon, offsets, *column_of([b"5 minutes"]), tables(), allocate_workspace(64))
json.dump(canon[:offsets[1]].tobytes().decode(), sys.stdout)
"""
"""One kernel alone, compiled for the types of its first call."""
QUICKLY = {"NUMBA_OPT": "1"}


class Installation:
    """A copy of the package with a separate cache folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "assay"
        for part in ("kernels", "research", "service"):
            shutil.copytree(ROOT / part, self.package / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "__init__.py", self.package)
        self.cache = folder / "cache"

    def start(self, code: str = START, file_size: int | None = None, **environment: str) -> subprocess.Popen[str]:
        """Start Python in the folder; file_size: bytes that a file may have, as if the disk were full."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "ASSAY_"))}
        return subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=self.folder,
            env={**kept, "ASSAY_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=None if file_size is None else partial(limit_files, file_size),
            text=True,
        )

    def files(self) -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in self.cache.rglob("*.kernel")}


def limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def outcome(process: subprocess.Popen[str], said: str = "") -> Any:
    """Return the JSON on a process's standard output; its standard error contains `said`, or nothing."""
    written, complaint = process.communicate(timeout=600)
    assert process.returncode == 0, complaint
    assert said in complaint if said else not complaint
    return json.loads(written)


def test_the_first_start_fills_the_cache_and_the_second_compiles_nothing(tmp_path):
    """It is the only one of the suite that compiles every kernel."""
    installation = Installation(tmp_path)
    seconds, (done, functions), *first = outcome(installation.start())
    cache, signatures, here, rewards = first
    assert Path(cache).parent == installation.cache
    assert signatures == here == warmup().signatures, "another process compiled the kernels"
    assert done == functions
    files = installation.files()
    assert len(files) == signatures
    assert rewards == pytest.approx([2.5 * 30 / 37])
    again, (done, _), *second = outcome(installation.start())
    assert (second, done) == (first, signatures)
    assert installation.files() == files
    assert again < seconds / 5


def test_an_interpreter_that_cannot_be_started(monkeypatch, tmp_path, caplog):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    fill_cache_elsewhere(tmp_path)
    assert "the kernels are compiled in this process" in caplog.text


def test_compilation_ends_when_nobody_reads(tmp_path):
    installation = Installation(tmp_path)
    with installation.start("from assay.kernels.warmup import fill_cache; fill_cache()", **QUICKLY) as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert "BrokenPipeError" in process.stderr.read(), "both processes have ended"
    assert len(installation.files()) < warmup().signatures


def test_without_a_usable_cache_folder(tmp_path):
    nowhere = str(tmp_path / "assay" / "__init__.py" / "below")
    none_found = "import tempfile\ntempfile._get_default_tempdir = lambda: open('/no/such/file')\n"
    process = Installation(tmp_path).start(none_found + CANON, ASSAY_CACHE_DIR=nowhere, HOME=nowhere, **QUICKLY)
    assert outcome(process, said="compiled at every start") == "5 min"


@pytest.mark.attack
def test_a_damaged_kernel_is_recompiled(tmp_path):
    installation = Installation(tmp_path)
    assert outcome(installation.start(CANON, **QUICKLY)) == "5 min"
    (path,) = map(Path, installation.files())
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 4]) + whole[5001:])
    assert outcome(installation.start(CANON, **QUICKLY), said=f"recompiled: {path} cannot be used") == "5 min"
    files = installation.files()
    assert outcome(installation.start(CANON, **QUICKLY)) == "5 min"
    assert installation.files() == files, "the damaged file was replaced"


@pytest.mark.attack
def test_a_full_disk_under_the_cache(tmp_path):
    installation = Installation(tmp_path)
    process = installation.start(CANON, file_size=4096, **QUICKLY)
    assert outcome(process, said="the kernels are not cached in") == "5 min"
    assert not [path for path in installation.cache.rglob("*") if path.is_file()]


@pytest.mark.attack
def test_a_start_that_is_killed_and_two_at_once(tmp_path):
    installation = Installation(tmp_path)
    in_the_middle = "import os, signal; os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
    killed = installation.start(in_the_middle + CANON, **QUICKLY)  # its file is written but not yet renamed
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not installation.files()
    processes = [installation.start(CANON, **QUICKLY) for _ in range(2)]
    assert [outcome(process) for process in processes] == ["5 min", "5 min"]
    assert len(installation.files()) == 1

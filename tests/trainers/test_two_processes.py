"""TRL's own trainer in two processes, of the newest version and of the oldest one that axolotl's releases pin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.http.samples import PERFECT, REFERENCE

ROOT = Path(__file__).resolve().parents[2]
OLDEST = Path(sys.prefix) / "trl-oldest"
"""Where `make test-trainers` installs it, without its dependencies."""
PATHS = [ROOT / "clients", ROOT / "examples" / "grpo_tiny"]
SECONDS = 300
"""Processes that wait for each other would do so forever."""


@pytest.mark.parametrize("tasks", [False, True], ids=["score", "tasks"])
@pytest.mark.parametrize("version", ["newest", "oldest"])
def test_processes_log_the_same_metrics(version: str, tasks: bool, at: str, tmp_path: Path) -> None:
    """A reason that only one of them meets, and a step in which one has no row to score."""
    if version == "oldest" and not OLDEST.is_dir():
        pytest.skip("needs TRL 1.9.0 beside the newest: make test-trainers installs it")
    paths = [OLDEST, *PATHS] if version == "oldest" else PATHS
    variables = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "LOGGED": str(tmp_path / "logged.json")}
    variables |= {"OMP_NUM_THREADS": "1", "PERFECT": PERFECT, "REFERENCE": REFERENCE} | (
        {"TASKS": "1"} if tasks else {}
    )
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    script = Path(__file__).with_name("two_processes.py")
    subprocess.run([*command, str(script)], check=True, env=os.environ | variables, timeout=SECONDS)
    installed, steps = json.loads((tmp_path / "logged.json").read_text(encoding="utf-8"))
    assert installed.startswith("1.9.") is (version == "oldest")
    assert [step["score/reason_missing_sections"] for step in steps] == [0.25, None if version == "oldest" else 0.0]
    assert [step["score/reason_bad_step_json"] for step in steps] == [0.0, None if version == "oldest" else 0.0]
    assert [step["score/readable"] for step in steps] == [0.75, None if version == "oldest" else 1.0]
    assert steps[0].keys() == steps[1].keys()

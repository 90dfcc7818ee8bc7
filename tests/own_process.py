"""Scripts that run in a process of their own: where they fail, a segmentation fault must not end the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["printed"]

ROOT = Path(__file__).resolve().parents[1]
PATHS = [ROOT, ROOT / "tests", ROOT / "tests" / "scorer", ROOT / "examples"]


def printed(script: str | Path, *arguments: object) -> str:
    """What a Python script prints: its source, or the path of its file."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, PATHS))}
    source = ["-c", script] if isinstance(script, str) else [str(script)]
    command = [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", *source, *map(str, arguments)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout

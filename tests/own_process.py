"""Python in a separate process: if it fails there, a segmentation fault does not end the suite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["environment", "printed", "printed_by"]

ROOT = Path(__file__).resolve().parents[1]
PATHS = [ROOT, ROOT / "clients", ROOT / "examples"]


def environment(*folders: Path, **variables: str) -> dict[str, str]:
    """Return this process's environment with `folders`, the tests and what they import on PYTHONPATH."""
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, [*folders, *PATHS]), *inherited]), **variables}


def printed(source: str, *arguments: object) -> str:
    """Return what a script prints."""
    return _output("-c", source, *arguments)


def printed_by(module: str, *arguments: object) -> str:
    """Return what a module prints that is run as a script, by its dotted name."""
    return _output("-m", module, *arguments)


def _output(*arguments: object) -> str:
    command = [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", *map(str, arguments)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout

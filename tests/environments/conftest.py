"""Frameworks' own runners against a real service: see `make test-environments`.

These tests run in an environment of the framework, where the service is not importable. The service is the command that
ASSAY_COMMAND names.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_COMMAND = str(ROOT / ".venv" / "bin" / "assay")

os.environ.setdefault("ASSAY_COMMAND", DEFAULT_COMMAND)
for name, value in {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled"}.items():
    os.environ.setdefault(name, value)

pytest_plugins = ["tests.servers"]


def pytest_configure() -> None:
    """Start servers with the command that ASSAY_COMMAND names; find the framework's commands by their names."""
    from tests import servers

    servers.COMMAND = [*shlex.split(os.environ["ASSAY_COMMAND"]), "serve"]
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])

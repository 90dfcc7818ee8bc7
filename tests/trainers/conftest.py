"""Real code of trainers against a real service: see `make test-trainers`.

These tests run in the trainers' own environment, where the service is not importable, and must not be: Hugging Face
publishes another package that is called `kernels`. The service is the command that ASSAY_COMMAND names.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.trainers.published import Prepared

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("WANDB_MODE", "disabled")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
HOME = os.environ.get("HF_HOME", str(Path.home() / ".cache" / "huggingface"))
os.environ.setdefault("HF_DATASETS_CACHE", f"{HOME}/datasets")  # which nemo_gym would move into the working folder

pytest_plugins = ["tests.servers"]


def pytest_configure() -> None:
    """Start servers with the command that ASSAY_COMMAND names."""
    from tests import servers

    servers.COMMAND = [*shlex.split(os.environ.get("ASSAY_COMMAND", str(ROOT / ".venv" / "bin" / "assay"))), "serve"]


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Return published records, and what `assay prepare` makes of them."""
    from tests.trainers.published import prepared_in

    return prepared_in(tmp_path_factory.mktemp("records"))

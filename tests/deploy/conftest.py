"""What the files of deploy/ say, and the program that builds Kubernetes manifests of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.service.config import ServerSettings

pytest.importorskip("yaml", reason="needs assay[deploy]")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


def read(path: str) -> Any:
    """Return a YAML file of deploy/."""
    import yaml

    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


def built(kubectl: str, folder: Path) -> list[dict[str, Any]]:
    """Return the manifests that `kubectl apply --kustomize` would send."""
    import yaml

    command = [kubectl, "kustomize", str(folder)]
    shown = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
    return list(yaml.safe_load_all(shown.stdout))


def bytes_needed(settings: ServerSettings) -> int:
    """docs/size.md: the process itself, and six bytes for each byte in work."""
    return 400 * 2**20 + 6 * settings.max_work_bytes


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Return the program: beside this Python, where the extra `deploy` has put it, or on PATH."""
    path = shutil.which("kubectl", path=str(Path(sys.executable).parent)) or shutil.which("kubectl")
    if path is None:
        pytest.skip("there is no kubectl here")
    return path

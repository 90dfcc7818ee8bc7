"""What the files of deploy/ say, and the program that builds Kubernetes manifests of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml", reason="needs assay[deploy]")

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="session")
def kubectl() -> str:
    """Return the program: beside this Python, where the extra `deploy` has put it, or on PATH."""
    beside = shutil.which("kubectl", path=str(Path(sys.executable).parent))
    found = beside or shutil.which("kubectl")
    if found is None:
        pytest.skip("there is no kubectl here")
    return found


def built(kubectl: str, folder: str) -> list[dict[str, Any]]:
    """Return the manifests that `kubectl apply --kustomize` would send."""
    import yaml

    shown = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "kubernetes" / folder)], check=False, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert not shown.stderr, shown.stderr
    return list(yaml.safe_load_all(shown.stdout))


@pytest.fixture(scope="session")
def manifests(kubectl: str) -> dict[str, list[dict[str, Any]]]:
    """Everything that can be applied, by its folder."""
    return {folder: built(kubectl, folder) for folder in ("base", "overlays/development", "overlays/production")}


@pytest.fixture(scope="session")
def grafana_dashboard() -> dict[str, Any]:
    return json.loads((DEPLOY / "grafana" / "assay.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def alert_rules() -> list[dict[str, Any]]:
    import yaml

    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]

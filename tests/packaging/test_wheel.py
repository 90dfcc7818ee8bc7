"""The wheel, in an environment that has nothing else, scores."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("pyproject.toml", "README.md", "LICENSE", "__init__.py", "py.typed", "kernels", "service")
MINUTES = 60.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as anybody builds it, from a copy without what lies around in a checkout."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(folder)]
    subprocess.run(command, check=True, timeout=10 * MINUTES, stdout=subprocess.DEVNULL)
    (built,) = (folder / "dist").glob("assay-*.whl")
    return built


def test_what_is_in_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(next(name for name in names if name.endswith("METADATA"))).decode()
    sources = {
        f"assay/{path.relative_to(ROOT).as_posix()}"
        for folder in ("kernels", "service")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if ".dist-info/" not in name} == sources | {"assay/__init__.py", "assay/py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata


def test_it_scores_where_nothing_else_is(wheel: Path, tmp_path: Path, example_rollouts: list[dict[str, Any]]) -> None:
    home = tmp_path / "environment"
    venv.create(home, with_pip=True)
    binaries = home / ("Scripts" if os.name == "nt" else "bin")
    install = [str(binaries / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True, timeout=20 * MINUTES)
    source, target = tmp_path / "rollouts.jsonl", tmp_path / "scored.jsonl"
    source.write_text("".join(json.dumps(rollout) + "\n" for rollout in example_rollouts), encoding="utf-8")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "PYTHON"))}
    clean["ASSAY_CACHE_DIR"] = str(tmp_path / "cache")
    score = [str(binaries / "assay"), "score", str(source), "-o", str(target)]
    subprocess.run(score, check=True, timeout=20 * MINUTES, cwd=tmp_path, env=clean)
    rewards = [json.loads(line)["reward"] for line in target.read_text(encoding="utf-8").splitlines()]
    texts = [rollout["response"] for rollout in example_rollouts]
    references = [rollout["reference"] for rollout in example_rollouts]
    assert rewards == Scorer().score(texts, references).rewards.tolist()

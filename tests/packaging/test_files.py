"""Files beside the code agree with it."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.packaging.test_wheel import SOURCES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_changelog_has_the_version() -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] == "Unreleased"
    assert PROJECT["version"] in versions


def test_every_dependency_has_a_lower_bound() -> None:
    wanted = [
        *PROJECT["dependencies"],
        *(name for names in PROJECT["optional-dependencies"].values() for name in names),
    ]
    assert all(">=" in name or name.startswith("assay[") for name in wanted)


def test_the_image_gets_what_the_wheel_is_made_of() -> None:
    copied = set(re.findall(r"[\w./]+", " ".join(re.findall(r"^COPY (?!--from)(.*)$", dockerfile(), re.MULTILINE))))
    let_through = set(re.findall(r"^!(\S+?)/?$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE))
    assert let_through == {*SOURCES, "deploy/constraints.txt"}
    assert let_through <= copied


def test_the_image_is_portable() -> None:
    """Without an explicit, empty list of features Numba adds those of the machine that builds the image."""
    assert re.search(r'NUMBA_CPU_NAME=\$\{CPU\}.*NUMBA_CPU_FEATURES=""', dockerfile(), re.DOTALL)
    assert re.search(r"^ARG CPU=x86-64-v\d$", dockerfile(), re.MULTILINE)


def test_the_image_does_not_run_as_root() -> None:
    assert re.findall(r"^USER (.*)$", dockerfile(), re.MULTILINE) == ["65532:65532"]


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("target", ["demo", "test"])
def test_the_targets_can_be_made(target: str) -> None:
    shown = subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, text=True)
    assert {"demo": "examples/demo.py", "test": "-m pytest"}[target] in shown.stdout


def test_continuous_integration_runs_the_same_commands() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("make ")] == [
        "make lint",
        "make test-all",
        "make test-lowest",
        "make test-browser",
    ]

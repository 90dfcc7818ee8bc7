"""Versions and requirements that files repeat agree with each other."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("pyproject.toml", "clients/pyproject.toml", "environments/pyproject.toml")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project_of(name: str, root: Path = ROOT) -> dict[str, Any]:
    return tomllib.loads((root / name).read_text(encoding="utf-8"))["project"]


def test_every_place_has_the_version() -> None:
    version = project_of("pyproject.toml")["version"]
    assert {name: project_of(name)["version"] for name in PROJECTS} == dict.fromkeys(PROJECTS, version)
    citation = text_of("CITATION.cff")
    assert f"\nversion: {version}\n" in citation
    assert ("\ndate-released: " in citation) is not Version(version).is_devrelease
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "service/settings.py", ROOT / "service/version.py"):
        shown = re.findall(r"(?:\|v:|/assay:)(\d[\w.]*\w)", page.read_text(encoding="utf-8"))
        assert [other for other in shown if other != version] == [], page


def requirements_of(root: Path) -> dict[str, Requirement]:
    """Return what each project of a folder requires, by project, extra and name."""
    return {
        f"{name} {extra} {requirement.name}": requirement
        for name in PROJECTS
        for project in [project_of(name, root)]
        for extra, texts in {"": project["dependencies"], **project.get("optional-dependencies", {})}.items()
        for requirement in map(Requirement, texts)
    }


def bounded(requirements: dict[str, Requirement]) -> set[str]:
    """Return the names that are required in other ways than from a version on."""
    return {
        requirement.name
        for requirement in requirements.values()
        if {part.operator for part in requirement.specifier} - {">="}
    }


def test_requirements_have_lower_bounds_and_a_reason_for_every_upper_bound() -> None:
    requirements = requirements_of(ROOT)
    lower = {requirement.name for requirement in requirements.values() if ">=" in str(requirement.specifier)}
    assert {requirement.name for requirement in requirements.values()} - lower <= {"assay"}
    table = re.findall(r"^\| `([\w-]+)` ", text_of("docs/decisions/upper-bounds.md"), re.MULTILINE)
    assert sorted(table) == sorted(bounded(requirements))
    assert "13.9.4" in requirements["pyproject.toml  rich"].specifier  # AReaL requires one before 14.3


def test_the_weekly_workflow_removes_every_upper_bound(tmp_path: Path) -> None:
    for name in PROJECTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (command,) = re.findall(r"run: (sed .*) && git diff", text_of(".github/workflows/newest.yml"))
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    before, after = requirements_of(ROOT), requirements_of(tmp_path)
    assert bounded(after) == set()
    assert {key: (requirement.extras, requirement.marker) for key, requirement in after.items()} == {
        key: (requirement.extras, requirement.marker) for key, requirement in before.items()
    }

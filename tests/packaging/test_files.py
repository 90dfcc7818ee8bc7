"""Versions and requirements that files repeat agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = ("pyproject.toml", "clients/pyproject.toml", "environments/pyproject.toml")


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def project_of(name: str) -> dict[str, Any]:
    return tomllib.loads(text_of(name))["project"]


def test_every_place_has_the_version() -> None:
    version = project_of("pyproject.toml")["version"]
    assert {name: project_of(name)["version"] for name in PROJECTS} == dict.fromkeys(PROJECTS, version)
    citation = text_of("CITATION.cff")
    assert f"\nversion: {version}\n" in citation
    assert ("\ndate-released: " in citation) is not Version(version).is_devrelease
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "service/settings.py", ROOT / "service/version.py"):
        shown = re.findall(r"(?:\|v:|/assay:)(\d[\w.]*\w)", page.read_text(encoding="utf-8"))
        assert [other for other in shown if other != version] == [], page


def test_requirements_have_lower_bounds_and_a_reason_for_every_upper_bound() -> None:
    projects = [project_of(name) for name in PROJECTS]
    texts = [text for project in projects for text in project["dependencies"]]
    extras = [extra for project in projects for extra in project.get("optional-dependencies", {}).values()]
    texts += [text for extra in extras for text in extra]
    operators: dict[str, set[str]] = {}
    for requirement in map(Requirement, texts):
        operators.setdefault(requirement.name, set()).update(part.operator for part in requirement.specifier)
    assert {name for name, used in operators.items() if ">=" not in used} <= {"assay"}
    table = re.findall(r"^\| `([\w-]+)` ", text_of("docs/decisions/upper-bounds.md"), re.MULTILINE)
    assert sorted(table) == sorted(name for name, used in operators.items() if used - {">="})


def test_continuous_integration_begins_with_the_test_command_of_the_readme() -> None:
    """Nothing is installed, and no settings are there, before it runs."""
    demo, test = re.search(r"```sh\n(make \w+)\n(make \w+)\n```", text_of("README.md")).groups()
    assert (demo, test) == ("make demo", "make test")
    commands = [line for line in text_of(".ci/run").splitlines() if re.search(r"\bmake ", line)]
    assert commands[0].endswith(f' -u NLTK_DATA -u PYTHONPATH HOME="$home" {test}')
    steps = re.findall(r"- run: (.*make .*)", text_of(".github/workflows/ci.yml"))
    assert steps[0] == test
    assert [name for line in commands for name in re.findall(r"\bmake ([\w-]+)", line)] == [
        step.removeprefix("make ") for step in steps
    ]

"""Files beside the code agree with it."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.test_wheel import SOURCES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_changelog_has_the_version() -> None:
    versions = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert versions[0] in ("Unreleased", PROJECT["version"])
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
    return text_of("Dockerfile")


@pytest.mark.parametrize(
    ("target", "command"),
    [("demo", "examples/demo.py"), ("test", "-m pytest"), ("test-all", "-m pytest"), ("check", "-m mypy")],
)
def test_the_targets_can_be_made(target: str, command: str) -> None:
    shown = subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, text=True)
    assert command in shown.stdout


def test_the_quick_tests_exist() -> None:
    quick = re.findall(r"tests/\S+", re.findall(r"^QUICK :=(.*(?:\\\n.*)*)", text_of("Makefile"), re.MULTILINE)[0])
    assert len(quick) > 5
    assert [path for path in quick if not (ROOT / path).exists()] == []


def test_hooks_run_the_tools_of_lint() -> None:
    shown = subprocess.run(["make", "--dry-run", "lint"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tools = re.compile(r"-m (ruff check|ruff format|codespell_lib|mypy)\b")
    assert sorted(tools.findall(text_of(".pre-commit-config.yaml"))) == sorted(tools.findall(shown))
    assert len(tools.findall(shown)) == 4


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def workflow(name: str) -> dict[str, Any]:
    yaml = pytest.importorskip("yaml", reason="needs assay[deploy]")
    return yaml.safe_load(text_of(f".github/workflows/{name}"))


WORKFLOWS = ("ci.yml", "docs.yml", "newest.yml", "release.yml")


def test_the_workflow_runs_the_commands_of_continuous_integration() -> None:
    commands = [line for line in text_of(".ci/run").splitlines() if line.startswith("make ")]
    assert commands == ["make lint", "make docs", "make test-all", "make test-lowest", "make test-browser"]
    steps = workflow("ci.yml")["jobs"]["suite"]["steps"]
    assert [step["run"] for step in steps if step.get("run") in commands] == commands


def test_the_workflow_runs_on_every_python_that_is_named() -> None:
    versions = workflow("ci.yml")["jobs"]["suite"]["strategy"]["matrix"]["python"]
    classifiers = [name.rpartition(":: ")[2] for name in PROJECT["classifiers"] if ":: Python :: 3." in name]
    assert versions == classifiers
    assert PROJECT["requires-python"] == f">={versions[0]}"


def test_workflows_use_actions_by_digest_and_state_their_permissions() -> None:
    assert sorted(path.name for path in (ROOT / ".github/workflows").iterdir()) == sorted(WORKFLOWS)
    wrong = []
    for name in WORKFLOWS:
        uses = re.findall(r"uses: (.*)", text_of(f".github/workflows/{name}"))
        pinned = r"\./\.github/workflows/[\w-]+\.yml|[\w./-]+@[0-9a-f]{40} # v[0-9.]+"
        wrong += [f"{name}: {one}" for one in uses if not re.fullmatch(pinned, one)]
        wrong += [name] * (workflow(name)["permissions"] != {"contents": "read"})
        for job, content in workflow(name)["jobs"].items():
            if "write" in str(content.get("permissions")) and name not in ("docs.yml", "release.yml"):
                wrong.append(f"{name}: {job} may write")
            wrong += [f"{name}: {job}: no limit of time"] * ("timeout-minutes" not in content and "steps" in content)
    assert wrong == []


def test_actionlint_agrees() -> None:
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("there is no actionlint here")
    shown = subprocess.run([actionlint], cwd=ROOT, check=False, capture_output=True, text=True)
    assert (shown.returncode, shown.stdout) == (0, "")


DECISIONS = ROOT / "docs" / "decisions"
HEADINGS = ["Context", "Measured", "Decision", "What would change it"]


def test_every_decision_has_its_four_parts_and_is_in_the_index() -> None:
    pages = {path.name: path.read_text(encoding="utf-8") for path in DECISIONS.glob("*.md")}
    index = re.findall(r"^- \[[^\]]+\]\((.+)\)", pages.pop("README.md"), re.MULTILINE)
    assert sorted(index) == sorted(pages)
    assert {
        name: found for name, text in pages.items() if (found := re.findall(r"^## (.*)$", text, re.M)) != HEADINGS
    } == {}

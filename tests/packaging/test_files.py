"""Files beside the code agree with it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from _pytest.pathlib import fnmatch_ex
from packaging.requirements import Requirement
from packaging.version import Version

from tests.packaging.test_wheel import SOURCES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def version_problem(version: str, changelog: str) -> str | None:
    """Return what is wrong with a version beside its changelog: unreleased changes are a .dev of a later version."""
    sections = re.split(r"^## \[([^\]]+)\].*\n", changelog, flags=re.MULTILINE)[1:]
    entries = dict(zip(sections[::2], sections[1::2], strict=True))
    unreleased = re.search(r"^- ", entries.pop("Unreleased", ""), re.MULTILINE) is not None
    released, number = next(iter(entries)), Version(version)
    if unreleased and not (number.is_devrelease and number > Version(released)):
        return f"unreleased changes are a .dev version later than {released}, not {version}"
    if not unreleased and version != released:
        return f"without unreleased changes the version is {released}, not {version}"
    return None


def test_unreleased_changes_have_a_version_of_their_own() -> None:
    assert version_problem(PROJECT["version"], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")) is None


@pytest.mark.parametrize(
    ("version", "unreleased", "right"),
    [
        ("0.2.0", "- A change.", False),
        ("0.2.0.dev1", "- A change.", False),
        ("0.3.0", "- A change.", False),
        ("0.3.0.dev0", "### Added\n\n- A change.", True),
        ("0.3.0.dev0", "", False),
        ("0.1.0", "", False),
        ("0.2.0", "", True),
    ],
)
def test_a_version_and_its_changelog(version: str, unreleased: str, right: bool) -> None:
    changelog = (
        f"# Changelog\n\n## [Unreleased]\n\n{unreleased}\n\n## [0.2.0] - 2026-11-22\n\n- A.\n\n## [0.1.0]\n\n- B.\n"
    )
    assert (version_problem(version, changelog) is None) is right


def test_every_place_has_the_version() -> None:
    version = PROJECT["version"]
    for distribution in ("clients", "environments"):
        about = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8"))
        assert about["project"]["version"] == version
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {version}\n" in citation
    assert ("\ndate-released: " in citation) is not Version(version).is_devrelease
    for page in (*(ROOT / "docs").rglob("*.md"), ROOT / "service/settings.py", ROOT / "service/version.py"):
        shown = re.findall(r"(?:\|v:|/assay:)(\d[\w.]*\w)", page.read_text(encoding="utf-8"))
        assert [other for other in shown if other != version] == [], page


def test_every_dependency_has_a_lower_bound() -> None:
    wanted = [
        *PROJECT["dependencies"],
        *(name for names in PROJECT["optional-dependencies"].values() for name in names),
    ]
    assert all(">=" in name or name.startswith("assay[") for name in wanted)


def test_versions_that_trainers_require_are_allowed() -> None:
    """AReaL shares an environment with the service, and requires a Rich before 14.3."""
    (rich,) = (text for text in PROJECT["dependencies"] if text.startswith("rich"))
    assert "13.9.4" in Requirement(rich).specifier


PROJECTS = ("pyproject.toml", "clients/pyproject.toml", "environments/pyproject.toml")


def requirements_of(folder: Path) -> dict[str, Requirement]:
    """Return what each project of a folder requires, by project, extra and name."""
    requirements = {}
    for name in PROJECTS:
        project = tomllib.loads((folder / name).read_text(encoding="utf-8"))["project"]
        for extra, texts in {"": project["dependencies"], **project.get("optional-dependencies", {})}.items():
            for requirement in map(Requirement, texts):
                requirements[f"{name} {extra} {requirement.name}"] = requirement
    return requirements


def bounded(requirements: dict[str, Requirement]) -> set[str]:
    """Return the names that are required in other ways than from a version on."""
    return {
        requirement.name
        for requirement in requirements.values()
        if {part.operator for part in requirement.specifier} - {">="}
    }


def test_the_weekly_workflow_removes_every_upper_bound(tmp_path: Path) -> None:
    for name in PROJECTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    client = tmp_path / "clients" / "pyproject.toml"
    client.write_text(text_of("clients/pyproject.toml").replace('"orjson>=3.8"', '"orjson>=3.8, <=3.11.4,!=3.9"'))
    steps = workflow("newest.yml")["jobs"]["suite"]["steps"]
    (step,) = (step for step in steps if "bounds" in step.get("name", ""))
    command, _, shown = step["run"].partition(" && ")
    assert shown == "git diff"
    before = requirements_of(tmp_path)
    subprocess.run(["bash", "-c", command], cwd=tmp_path, check=True)
    after = requirements_of(tmp_path)
    assert {"numba", "uvicorn", "nltk", "mkdocs", "orjson"} <= bounded(before)
    assert bounded(after) == {"orjson"}
    assert str(after["clients/pyproject.toml fast orjson"].specifier) == "!=3.9,>=3.8"
    assert after.keys() == before.keys()
    for key, requirement in after.items():
        assert (requirement.extras, requirement.marker) == (before[key].extras, before[key].marker)
    for name in set(PROJECTS) - {"clients/pyproject.toml"}:
        lines = zip(text_of(name).splitlines(), (tmp_path / name).read_text(encoding="utf-8").splitlines(), strict=True)
        changed = [line for line, newest in lines if line != newest]
        assert len(changed) == sum(",<" in line for line in text_of(name).splitlines())


def test_the_weekly_workflow_uses_what_it_has_set_free() -> None:
    commands = [step.get("run") for step in workflow("newest.yml")["jobs"]["suite"]["steps"]]
    assert {"make lint", "make docs", "make test-all"} <= set(commands)


def test_every_upper_bound_has_its_reason() -> None:
    table = re.findall(r"^\| `([\w-]+)` ", text_of("docs/decisions/upper-bounds.md"), re.MULTILINE)
    assert sorted(table) == sorted(bounded(requirements_of(ROOT)))


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


def test_every_test_is_run_by_some_command() -> None:
    """A folder's name in `norecursedirs` hides every folder of that name: tests/http/trainers was hidden once."""
    options = tomllib.loads(text_of("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    folders = {path.parent for path in ROOT.glob("tests/**/*.py") if re.match("(test|fault|browse)_", path.name)}
    patterns = [pattern for pattern in options["norecursedirs"] if not pattern.startswith(".")]
    hidden = [folder for folder in folders if any(fnmatch_ex(pattern, folder) for pattern in patterns)]
    expected = ["browser", "environments", "faults", "trainers"]
    assert sorted(str(folder.relative_to(ROOT / "tests")) for folder in hidden) == expected


def test_the_suite_ends_with_what_was_skipped(tmp_path: Path) -> None:
    """And with the command that brings what was missing; a target of the Makefile."""
    reasons = {
        "NLTK's punkt_tab is not on this machine: make word-lists": 2,
        "could not import 'rouge_score': No module named 'rouge_score'": 1,
        "needs assay[deploy]": 1,
        "there is no promtool here": 1,
    }
    marks = "".join(
        f"@pytest.mark.skip(reason={reason!r})\n@pytest.mark.parametrize('k', range({count}))\ndef test_{n}(k): pass\n"
        for n, (reason, count) in enumerate(reasons.items())
    )
    source = "from tests.conftest import pytest_terminal_summary\n"
    (tmp_path / "conftest.py").write_text(source)
    (tmp_path / "test_skips.py").write_text(f"import pytest\n{marks}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "."]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    shown = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    expected = "5 skipped: 2 run after `make word-lists`, 2 run after `make test`, 1 not on this system (reasons above)"
    assert expected in shown.stdout.splitlines()


def test_no_skip_asks_for_a_folder_beside_the_checkout() -> None:
    """And the commands that reasons name are targets of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    for path in sorted(ROOT.glob("tests/**/*.py")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"ROOT\.parent\b|\.\./shared", text.replace(r"\.\./shared", "")), path
        asked = re.findall(r"(?:reason=|skip\()f?[\"'].*?make ([a-z-]+)", text)
        assert set(asked) <= targets, path


WORKFLOWS = ("ci.yml", "docs.yml", "newest.yml", "nightly.yml", "release.yml")


def test_the_workflow_runs_the_commands_of_continuous_integration() -> None:
    commands = re.findall(r"\bmake [a-z-]+", text_of(".ci/run"))
    assert commands == [
        "make lint",
        "make docs",
        "make word-lists",
        "make test-all",
        "make coverage",
        "make test-lowest",
        "make test-browser",
    ]
    steps = workflow("ci.yml")["jobs"]["suite"]["steps"]
    assert [step["run"] for step in steps if step.get("run") in commands] == commands


HOSTILE = {
    "COLUMNS": "133",
    "LINES": "7",
    "FORCE_COLOR": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "LC_ALL": "C",
    "TZ": "Asia/Kathmandu",
}


def test_the_suite_has_an_environment_of_its_own(tmp_path: Path) -> None:
    """Whatever terminal, locale, time zone and mask it is started with."""
    if os.environ.get("TESTED_ENVIRONMENT"):
        assert shutil.get_terminal_size().columns == 80
        assert not {"LINES", "FORCE_COLOR", "NO_COLOR"} & os.environ.keys()
        assert (time.tzname[0], os.environ["TERM"]) == ("UTC", "xterm")
        (tmp_path / "file").touch()
        assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644
        asked = "import locale, shutil; print(locale.getpreferredencoding(), shutil.get_terminal_size().columns)"
        assert subprocess.check_output([sys.executable, "-c", asked], text=True) == "UTF-8 80\n"
        return
    this = f"{__file__}::{test_the_suite_has_an_environment_of_its_own.__name__}"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", this]
    environ = os.environ | HOSTILE | {"TESTED_ENVIRONMENT": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environ, umask=0o077, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_one_pass_is_under_a_terminal_of_120_columns(tmp_path: Path) -> None:
    """With the exit status of make, without standard input, and with the line in which pytest counts."""
    (line,) = [line for line in text_of(".ci/run").splitlines() if "make test-all" in line]
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\nstty size; echo "$PYTEST_ADDOPTS"; echo "1 passed in 1.00s"; exit $STATUS\n', "utf-8")
    make.chmod(0o755)
    for status in (0, 3):
        environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "STATUS": str(status)}
        shell = ["bash", "-c", f"set -euo pipefail; {line}"]
        done = subprocess.run(shell, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        size, options, closing = done.stdout.splitlines()
        assert size.split()[1] == "120"
        assert (options, closing) == ("--color=no", "1 passed in 1.00s")


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

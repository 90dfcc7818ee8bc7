"""The distribution assay-environments: what it holds and needs, and the runner of `make test-environments`."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.environments import run
from tests.packaging.test_files import PROJECT

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "environments"
ABOUT = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SHARED = "assay_environments"
PACKAGES = sorted(path.name for path in FOLDER.glob("assay_*") if path.suffix != ".egg-info")
FRAMEWORKS = [name for name in PACKAGES if name != SHARED]
REQUIREMENTS = sorted(FOLDER.glob("assay_*/requirements*.txt"))


def imports_of(package: str) -> set[str]:
    """Return the top names of all absolute imports of a package."""
    found = set()
    for path in (FOLDER / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10))):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module or "")
    return {name.partition(".")[0] for name in found}


def test_its_version_and_licence_are_those_of_the_product() -> None:
    assert ABOUT["version"] == PROJECT["version"]
    assert ABOUT["license"] == PROJECT["license"]
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    release, _, development = PROJECT["version"].partition(".dev")
    least = PROJECT["version"] if development else release.rpartition(".")[0]
    assert ABOUT["dependencies"] == [f"assay-client>={least}"]


def test_the_shared_package_needs_nothing_but_the_client() -> None:
    assert imports_of(SHARED) <= {*sys.stdlib_module_names, "assay_client"}


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_packages_of_frameworks_import_no_service_and_no_other_framework(package: str) -> None:
    others = {"assay", "kernels", "research", "service", *FRAMEWORKS} - {package}
    assert imports_of(package) & others == set()


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_every_framework_has_a_short_readme_requirements_and_tests(package: str) -> None:
    readme = (FOLDER / package / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 50
    assert f"{package}/README.md" in (FOLDER / "README.md").read_text(encoding="utf-8")
    assert (FOLDER / package / "requirements.txt").is_file()
    assert (ROOT / "tests" / "environments" / f"test_{package.removeprefix('assay_')}.py").is_file()


@pytest.mark.parametrize("package", [name for name in PACKAGES if imports_of(name)])
def test_packages_with_code_are_typed(package: str) -> None:
    assert (FOLDER / package / "py.typed").is_file()


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_requirements_are_pinned(path: Path) -> None:
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line for line in lines if line and not re.fullmatch(r"[\w.-]+(\[[\w,-]+\])?==[\w.+]+", line)] == []


def test_the_runner_finds_every_framework() -> None:
    found = run.frameworks()
    assert {one.requirements for one in found} == set(REQUIREMENTS)
    assert {one.name for one in found} >= {"openenv"}
    assert [one.name for one in found if not one.tests.is_file()] == []
    assert len({one.name for one in found}) == len(found)


REPORTS = [
    ('tests="3" errors="0" failures="0" skipped="0"', "3 passed"),
    ('tests="3" errors="0" failures="0" skipped="1"', "2 passed, 1 SKIPPED"),
    ('tests="3" errors="1" failures="1" skipped="0"', "FAILED: 2 failed, 1 passed"),
    ('tests="2" errors="0" failures="0" skipped="2"', "FAILED: no test ran, 0 passed, 2 SKIPPED"),
    ('tests="0" errors="0" failures="0" skipped="0"', "FAILED: no test ran, 0 passed"),
]


@pytest.mark.parametrize(("counts", "outcome"), REPORTS, ids=[outcome for _, outcome in REPORTS])
def test_an_environment_without_tests_that_ran_has_failed(tmp_path: Path, counts: str, outcome: str) -> None:
    report = tmp_path / "report.xml"
    assert run.outcome(report) == "FAILED: pytest wrote no report"
    report.write_text(f"<testsuites><testsuite {counts} /></testsuites>", encoding="utf-8")
    assert run.outcome(report) == outcome


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put two frameworks and an installer that refuses one of them in place of the real ones."""
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\ncase "$*" in *bad*) echo no such version; exit 1;; esac\n', encoding="utf-8")
    uv.chmod(0o755)
    found = []
    for name in ("bad", "good"):
        requirements = tmp_path / name / "requirements.txt"
        requirements.parent.mkdir()
        requirements.write_text(f"{name}==1.0\n", encoding="utf-8")
        (tmp_path / "home" / name).mkdir(parents=True)
        found.append(run.Framework(name, requirements, tmp_path / f"test_{name}.py"))
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "HOME", tmp_path / "home")
    monkeypatch.setattr(run, "UV", (str(uv),))
    monkeypatch.setattr(run, "frameworks", lambda: found)
    monkeypatch.setattr(run, "versions", lambda framework: (f"{framework.name} 1.0", "3.11.0"))
    monkeypatch.setattr(run, "tested", lambda _framework: "2 passed")
    return tmp_path


@pytest.mark.usefixtures("fake")
def test_what_cannot_be_installed_is_skipped_loudly(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main([]) == 0
    shown = capsys.readouterr().out
    assert "BAD CANNOT BE INSTALLED HERE AND IS NOT TESTED:\nno such version" in shown
    assert "NOT TESTED, BECAUSE NOT INSTALLED: bad" in shown
    assert re.search(r"^bad +- +- +SKIPPED: NOT INSTALLED", shown, re.MULTILINE)
    assert re.search(r"^good +good 1.0 +3.11.0 +2 passed$", shown, re.MULTILINE)
    assert run.main(["--strict"]) == 1
    assert run.main(["--strict", "good"]) == 0
    with pytest.raises(SystemExit):
        run.main(["ugly"])


@pytest.mark.usefixtures("fake")
def test_a_failed_test_fails_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "tested", lambda _framework: "FAILED: 1 failed, 1 passed")
    assert run.main(["good"]) == 1


def test_environments_are_set_up_again_only_for_other_requirements(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    monkeypatch.setattr(run, "called", lambda *command, **_options: calls.append(command) or "")
    good = run.frameworks()[1]
    run.install(good, [])
    assert [command[1] for command in calls] == ["venv", "pip", "pip"]
    calls.clear()
    run.install(good, [])
    assert [command[1] for command in calls] == ["pip"]
    calls.clear()
    good.requirements.write_text("# python: 3.99\n# python-version: 3.99.7\ngood==1.1\n", encoding="utf-8")
    run.install(good, [])
    assert [command[1] for command in calls] == ["venv", "pip", "pip"]
    assert calls[0][calls[0].index("--python") + 1] == "3.99"
    assert calls[1][calls[1].index("--python-version") + 1] == "3.99.7"


def shipped() -> set[str]:
    built = {"__pycache__", "build", "dist"}
    files = [path for name in PACKAGES for path in (FOLDER / name).rglob("*") if path.is_file()]
    return {path.relative_to(FOLDER).as_posix() for path in files if not built & set(path.parts)}


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_packages(tmp_path: Path) -> None:
    """Built as a release builds it, by way of the source distribution."""
    source = tmp_path / "environments"
    shutil.copytree(FOLDER, source, ignore=shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info"))
    command = [sys.executable, "-m", "build", "--outdir", str(tmp_path / "dist"), str(source)]
    subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == shipped()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {"assay_openenv/openenv.yaml", "assay_environments/py.typed"} <= names

"""The wheels: what they hold; and that Assay's scores with nothing else, and beside packages with names like ours."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from assay import Scorer
from assay.research.conformance import KINDS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (
    *("pyproject.toml", "README.md", "LICENSE", "__init__.py", "__main__.py", "py.typed"),
    *("examples/protocols.toml", "examples/rollouts.py"),
    *("kernels", "loadtests", "research", "service", "tests/vectors"),
)
"""What the wheel is built of; the image gets nothing else."""
MINUTES = 60.0
BUILT = shutil.ignore_patterns("__pycache__", "build", "dist", "*.egg-info")


def built(source: Path, *flags: str) -> tuple[Path, set[str]]:
    """Build a wheel as anybody builds it; return it and the names of its files."""
    command = [sys.executable, "-m", "build", *flags, "--outdir", str(source / "dist"), str(source)]
    subprocess.run(command, check=True, timeout=10 * MINUTES, stdout=subprocess.DEVNULL)
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert any(name.endswith("licenses/LICENSE") for name in names)
    return wheel, {name for name in names if ".dist-info/" not in name}


def files_of(*folders: Path) -> set[str]:
    """Return the files of folders, relative to the folder around the first."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    names = {path.relative_to(folders[0].parent) for path in files}
    return {name.as_posix() for name in names if "__pycache__" not in name.parts}


@pytest.fixture(scope="module")
def wheel_and_names(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[str]]:
    """Built from a copy without what lies around in a checkout."""
    folder = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=BUILT)
        else:
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return built(folder, "--wheel")


def test_what_is_in_the_wheel(wheel_and_names: tuple[Path, set[str]]) -> None:
    _, names = wheel_and_names
    sources = files_of(*(ROOT / folder for folder in ("kernels", "loadtests", "research", "service")))
    others = {name for name in SOURCES if name.endswith((".py", ".toml", ".typed"))} - {"pyproject.toml"}
    others |= {f"tests/vectors/{kind}.jsonl" for kind in KINDS}
    assert names == {f"assay/{name}" for name in sources | others}


def test_what_is_in_the_wheel_of_environments(tmp_path: Path) -> None:
    """Built as a release builds it, by way of the source distribution."""
    source = shutil.copytree(ROOT / "environments", tmp_path / "environments", ignore=BUILT)
    packages = [path for path in source.glob("assay_*") if path.is_dir()]
    expected = files_of(*packages)
    _, names = built(source)
    assert names == expected >= {"assay_openenv/openenv.yaml", "assay_environments/py.typed"}


class Environment:
    """A virtual environment with pip, and what it has installed."""

    def __init__(self, home: Path) -> None:
        venv.create(home, with_pip=True)
        self.home = home
        self._binaries = home / ("Scripts" if os.name == "nt" else "bin")
        self.packages = Path(self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())

    def run(self, program: str, *arguments: object, **variables: str) -> str:
        """Return what a program of the environment prints, without the settings of this process."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "PYTHON"))}
        command = [str(self._binaries / program), *map(str, arguments)]
        options: dict[str, Any] = {"cwd": self.home, "env": clean | variables, "timeout": 20 * MINUTES}
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout

    def pip(self, *arguments: object) -> None:
        self.run("python", "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)

    def rewards(self, rollouts: list[dict[str, Any]], **variables: str) -> list[float]:
        """Return the rewards that the command writes into a file."""
        source, target = self.home / "rollouts.jsonl", self.home / "scored.jsonl"
        source.write_text("".join(json.dumps(rollout) + "\n" for rollout in rollouts), encoding="utf-8")
        self.run("assay", "score", source, "-o", target, **variables)
        return [json.loads(line)["reward"] for line in target.read_text(encoding="utf-8").splitlines()]

    def contents(self, package: str) -> dict[str, bytes]:
        folder = self.packages / package
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.py")}


def rewards_here(rollouts: list[dict[str, Any]]) -> list[float]:
    texts = [rollout["response"] for rollout in rollouts]
    return Scorer().score(texts, [rollout["reference"] for rollout in rollouts]).rewards.tolist()


def test_it_scores_where_nothing_else_is(
    wheel_and_names: tuple[Path, set[str]], tmp_path: Path, example_rollouts: list[dict[str, Any]]
) -> None:
    environment = Environment(tmp_path / "environment")
    environment.pip("install", wheel_and_names[0])
    cache = {"ASSAY_CACHE_DIR": str(tmp_path / "cache")}
    assert environment.rewards(example_rollouts, **cache) == rewards_here(example_rollouts)
    conformance = json.loads(environment.run("assay", "conformance", "--json", **cache))
    assert conformance["passed"] == conformance["cases"] > 1_500


def another_wheel(name: str, folder: Path) -> Path:
    """Return the wheel of another distribution and package of this name, with modules that are called like ours."""
    path = folder / f"{name}-9.9-py3-none-any.whl"
    about = f"{name}-9.9.dist-info"
    files = {f"{name}/{module}.py": f"OWNER = 'another {name}'\n" for module in ("__init__", "score", "errors")}
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n"
    files[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(file, content)
    return path


def test_other_packages_of_the_same_names_stay_whole(
    wheel_and_names: tuple[Path, set[str]], tmp_path: Path, example_rollouts: list[dict[str, Any]]
) -> None:
    """None is imported in place of ours, changed, or removed with ours; dependencies are those of this Python."""
    names = ("kernels", "research", "service")
    environment = Environment(tmp_path / "environment")
    environment.pip("install", "--no-deps", "--no-index", *(another_wheel(name, tmp_path) for name in names))
    before = {name: environment.contents(name) for name in names}
    environment.pip("install", "--no-deps", "--no-index", wheel_and_names[0])
    dependencies = environment.packages / "dependencies.pth"
    folders = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    dependencies.write_text("".join(f"{folder}\n" for folder in folders), encoding="utf-8")
    cache = {name: os.environ[name] for name in ("ASSAY_CACHE_DIR",) if name in os.environ}
    assert environment.rewards(example_rollouts[:1], **cache) == rewards_here(example_rollouts[:1])
    dependencies.unlink()
    environment.pip("uninstall", "--yes", "assay")
    assert not (environment.packages / "assay").exists()
    assert {name: environment.contents(name) for name in names} == before
    owners = "import kernels.score, service.errors; print(kernels.score.OWNER, service.errors.OWNER, sep=', ')"
    assert environment.run("python", "-c", owners) == "another kernels, another service\n"

"""Run the runner of every framework, each in an environment of its own (`make test-environments`).

    python tests/environments/run.py [FRAMEWORK ...] [--strict]

A framework is a file `environments/assay_*/requirements*.txt`, whose first requirement is the framework itself; a line
`# python: 3.13` asks for another Python than this one, which must be on the search path. What cannot be installed is
skipped and listed; `--strict` makes that a failure.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
HOME = ROOT / ".venv-environments"
DISTRIBUTIONS = ("clients", "environments")
TOOLS = ("httpx==0.28.1", "pytest==9.2.0")
"""What the tests import beside the framework."""
UV = (sys.executable, "-m", "uv", "--quiet", "--no-python-downloads")
MINUTES = 60.0
INSTALLED_WITHIN = 20 * MINUTES
TESTED_WITHIN = 20 * MINUTES
LINES_SHOWN = 12
"""The last lines of a failed installation that are shown."""


class NotInstalled(Exception):
    """Raised with the last lines of an installer that failed."""


class Framework(NamedTuple):
    """What the tests of one framework need."""

    name: str
    requirements: Path
    tests: Path

    @property
    def home(self) -> Path:
        """Return the folder of its environment."""
        return HOME / self.name

    @property
    def python(self) -> Path:
        """Return the interpreter of its environment."""
        return self.home / "bin" / "python"


class Result(NamedTuple):
    """What became of one framework."""

    name: str
    version: str
    python: str
    outcome: str
    """`passed …`, `FAILED …` or `SKIPPED …`."""


def frameworks() -> list[Framework]:
    """Return the frameworks by name; `requirements-legacy.txt` of a package is one called `…-legacy`.

    Its tests are `test_NAME.py`; a variant without tests of its own runs those of the package.
    """
    found = []
    for requirements in sorted((ROOT / "environments").glob("assay_*/requirements*.txt")):
        package = requirements.parent.name.removeprefix("assay_")
        name = package + requirements.stem.removeprefix("requirements").replace("-", "_")
        own = HERE / f"test_{name}.py"
        found.append(
            Framework(name.replace("_", "-"), requirements, own if own.exists() else HERE / f"test_{package}.py")
        )
    return found


def called(*command: object, within: float, environ: dict[str, str] | None = None) -> str:
    """Return what a command prints; raise NotInstalled with its last lines if it fails."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run(
            list(map(str, command)), cwd=ROOT, env=environ, timeout=within, text=True, check=False, **options
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"not installed within {within:.0f} seconds") from None
    if done.returncode:
        raise NotInstalled("\n".join(done.stdout.strip().splitlines()[-LINES_SHOWN:]))
    return done.stdout


def built() -> list[Path]:
    """Return the wheels of the distributions, built as a release builds them."""
    folder = HOME / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    for name in DISTRIBUTIONS:
        called(*UV, "build", "--out-dir", folder, ROOT / name, within=INSTALLED_WITHIN)
    return sorted(folder.glob("*.whl"))


def install(framework: Framework, wheels: Sequence[Path]) -> None:
    """Set up the environment unless it has these requirements already, and install the wheels into it."""
    text = framework.requirements.read_text(encoding="utf-8")
    asked = re.search(r"^# python: *(\S+)", text, re.MULTILINE)
    python = asked[1] if asked else sys.executable
    wanted = hashlib.sha256("\n".join([python, *TOOLS, text]).encode()).hexdigest()
    stamp = framework.home / ".installed"
    if not stamp.exists() or stamp.read_text(encoding="ascii") != wanted:
        print(f"Setting up {framework.home.relative_to(ROOT)} …", flush=True)
        called(*UV, "venv", "--clear", "--python", python, framework.home, within=INSTALLED_WITHIN)
        packages = [*TOOLS, "-r", framework.requirements]
        called(*UV, "pip", "install", "--python", framework.python, *packages, within=INSTALLED_WITHIN)
        stamp.write_text(wanted, encoding="ascii")
    options = ("--python", framework.python, "--no-deps", "--reinstall")
    called(*UV, "pip", "install", *options, *wheels, within=INSTALLED_WITHIN)


def versions(framework: Framework) -> tuple[str, str]:
    """Return the version of the framework and that of its Python."""
    first = re.search(r"^([\w.-]+)", framework.requirements.read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None, f"{framework.requirements} names no framework"
    code = f"import importlib.metadata as m, platform as p; print(m.version({first[1]!r}), p.python_version())"
    version, python = called(framework.python, "-c", code, within=MINUTES).split()
    return f"{first[1]} {version}", python


def tested(framework: Framework) -> str:
    """Run the tests of a framework and return the outcome, which is a failure also if no test ran."""
    report = framework.home / "report.xml"
    report.unlink(missing_ok=True)
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environ["ASSAY_COMMAND"] = os.environ.get("ASSAY_COMMAND") or str(Path(sys.executable).with_name("assay"))
    # -P: the checkout is not on the path.
    command = [framework.python, "-P", "-m", "pytest", "-c", HERE / "pytest.ini", "--rootdir=.", f"--confcutdir={HERE}"]
    command += [f"--junit-xml={report}", framework.tests]
    try:
        subprocess.run(list(map(str, command)), cwd=ROOT, env=environ, timeout=TESTED_WITHIN, check=False)
    except subprocess.TimeoutExpired:
        return f"FAILED: not finished within {TESTED_WITHIN:.0f} seconds"
    return outcome(report)


def outcome(report: Path) -> str:
    """Return what pytest's report says."""
    if not report.exists():
        return "FAILED: pytest wrote no report"
    suite = next(ElementTree.parse(report).iter("testsuite"))
    count = {name: int(suite.get(name, 0)) for name in ("tests", "errors", "failures", "skipped")}
    failed = count["errors"] + count["failures"]
    passed = count["tests"] - failed - count["skipped"]
    summary = f"{passed} passed" + (f", {count['skipped']} SKIPPED" if count["skipped"] else "")
    if failed:
        return f"FAILED: {failed} failed, {summary}"
    return summary if passed else f"FAILED: no test ran, {summary}"


def result_of(framework: Framework, wheels: Sequence[Path]) -> Result:
    """Install and test one framework."""
    print(f"\n== {framework.name} ==", flush=True)
    try:
        install(framework, wheels)
        version, python = versions(framework)
    except NotInstalled as error:
        print(f"{framework.name.upper()} CANNOT BE INSTALLED HERE AND IS NOT TESTED:\n{error}", flush=True)
        return Result(framework.name, "-", "-", "SKIPPED: NOT INSTALLED, see above")
    print(f"{version} on Python {python}", flush=True)
    return Result(framework.name, version, python, tested(framework))


def table(results: Sequence[Result]) -> str:
    """Return the results as aligned columns."""
    rows = [Result("framework", "version", "Python", "result"), *results]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 unless a test failed, or a framework was skipped and `--strict` is given."""
    known = frameworks()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", nargs="*", help=f"default: all of {', '.join(one.name for one in known)}")
    parser.add_argument("--strict", action="store_true", help="fail if a framework cannot be installed")
    given = parser.parse_args(arguments)
    unknown = set(given.framework) - {one.name for one in known}
    if unknown:
        parser.error(f"no such framework: {', '.join(sorted(unknown))}")
    chosen = [one for one in known if not given.framework or one.name in given.framework]
    try:
        wheels = built()
    except NotInstalled as error:
        raise SystemExit(f"assay-client and assay-environments cannot be built here:\n{error}") from None
    results = [result_of(one, wheels) for one in chosen]
    print(f"\n{table(results)}", flush=True)
    skipped = [one.name for one in results if one.outcome.startswith("SKIPPED")]
    if skipped:
        line = "=" * 88
        print(f"{line}\nNOT TESTED, BECAUSE NOT INSTALLED: {', '.join(skipped)}\n{line}")
    failed = any(one.outcome.startswith("FAILED") for one in results)
    return int(failed or (given.strict and bool(skipped)))


if __name__ == "__main__":
    raise SystemExit(main())

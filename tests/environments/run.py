"""Run the runner of every framework, each in an environment of its own (`make test-environments`).

    python tests/environments/run.py [FRAMEWORK ...]

A framework is a file `environments/assay_*/requirements*.txt`, whose first requirement is the framework itself. A line
`# python: 3.13` asks for another Python than this one, which must be on the search path; `# python-version: 3.13.14`
installs what is meant for that patch version into any other. What cannot be installed is skipped and listed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
HOME = ROOT / ".venv-environments"
DISTRIBUTIONS = ("clients", "environments")
TOOLS = ("httpx==0.28.1", "pytest==9.2.0")
"""What the tests import beside the framework."""
UV = (sys.executable, "-m", "uv", "--quiet", "--no-python-downloads")
SECONDS = 1200.0
"""How long an installation, or the tests of a framework, may take."""
LINES_SHOWN = 12
"""The last lines of a failed installation that are shown."""


class NotInstalled(Exception):
    """Raised with the last lines of an installer that failed."""


def frameworks() -> dict[str, tuple[Path, Path]]:
    """Return requirements and tests by the name of the framework.

    `requirements-legacy.txt` of a package is a framework called `…-legacy`. Its tests are `test_NAME.py`; a variant
    without tests of its own runs those of the package.
    """
    by_name = {}
    for requirements in sorted((ROOT / "environments").glob("assay_*/requirements*.txt")):
        package = requirements.parent.name.removeprefix("assay_")
        module = package + requirements.stem.removeprefix("requirements").replace("-", "_")
        tests = next(path for name in (module, package) if (path := HERE / f"test_{name}.py").exists())
        by_name[module.replace("_", "-")] = requirements, tests
    return by_name


def called(*command: object) -> str:
    """Return what a command prints; raise NotInstalled with its last lines if it fails."""
    options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        done = subprocess.run([*map(str, command)], cwd=ROOT, timeout=SECONDS, text=True, check=False, **options)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"not installed within {SECONDS:.0f} seconds") from None
    if done.returncode:
        raise NotInstalled("\n".join(done.stdout.strip().splitlines()[-LINES_SHOWN:]))
    return done.stdout


def built() -> list[Path]:
    """Return the wheels of the distributions, built as a release builds them."""
    folder = HOME / "wheels"
    shutil.rmtree(folder, ignore_errors=True)
    for name in DISTRIBUTIONS:
        called(*UV, "build", "--out-dir", folder, ROOT / name)
    return sorted(folder.glob("*.whl"))


def install(home: Path, requirements: Path, wheels: list[Path]) -> Path:
    """Set up an environment unless it has these requirements already, install the wheels, return its interpreter."""
    text = requirements.read_text(encoding="utf-8")
    asked = dict(re.findall(r"^# (python|python-version): *(\S+)", text, re.MULTILINE))
    python, interpreter = asked.get("python", sys.executable), home / "bin" / "python"
    digest = hashlib.sha256("\n".join([python, *TOOLS, text]).encode()).hexdigest()
    stamp = home / ".installed"
    if not stamp.exists() or stamp.read_text(encoding="ascii") != digest:
        print(f"Setting up {home.relative_to(ROOT)} …", flush=True)
        called(*UV, "venv", "--clear", "--python", python, home)
        options = ["--python-version", asked["python-version"]] if "python-version" in asked else []
        called(*UV, "pip", "install", "--python", interpreter, *options, *TOOLS, "-r", requirements)
        stamp.write_text(digest, encoding="ascii")
    called(*UV, "pip", "install", "--python", interpreter, "--no-deps", "--reinstall", *wheels)
    return interpreter


def result_of(name: str, requirements: Path, tests: Path, wheels: list[Path]) -> str:
    """Install and test one framework, and return what became of it; it is a failure also if there is no test."""
    print(f"\n== {name} ==", flush=True)
    try:
        python = install(HOME / name, requirements, wheels)
    except NotInstalled as error:
        print(f"{name.upper()} CANNOT BE INSTALLED HERE AND IS NOT TESTED:\n{error}", flush=True)
        return "NOT TESTED, because it cannot be installed: see above"
    environ = {variable: value for variable, value in os.environ.items() if variable != "PYTHONPATH"}
    environ["ASSAY_COMMAND"] = os.environ.get("ASSAY_COMMAND") or str(Path(sys.executable).with_name("assay"))
    # -P: the checkout is not on the path.
    command = [python, "-P", "-m", "pytest", "-c", HERE / "pytest.ini", "--rootdir=.", f"--confcutdir={HERE}", tests]
    try:
        ended = subprocess.run([*map(str, command)], cwd=ROOT, env=environ, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"FAILED: not finished within {SECONDS:.0f} seconds"
    return "FAILED" if ended.returncode else "passed"


def main() -> int:
    """Return 0 unless a test failed."""
    available = frameworks()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("framework", nargs="*", help=f"default: all of {', '.join(available)}")
    options = parser.parse_args()
    if unknown := set(options.framework) - set(available):
        parser.error(f"no such framework: {', '.join(sorted(unknown))}")
    try:
        wheels = built()
    except NotInstalled as error:
        raise SystemExit(f"assay-client and assay-environments cannot be built here:\n{error}") from None
    results = {name: result_of(name, *available[name], wheels) for name in options.framework or available}
    print("\n" + "\n".join(f"{name:20} {result}" for name, result in results.items()), flush=True)
    return int(any(result.startswith("FAILED") for result in results.values()))


if __name__ == "__main__":
    raise SystemExit(main())

"""Run the tests of this folder in a Chromium, installing Debian's if missing and permitted (`make test-browser`).

Without a browser, print a notice and exit with 0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
INSTALLED_WITHIN = 600.0


def browser() -> str | None:
    """Return the path of a Chromium: `BROWSER_PATH`, or the first one on the search path."""
    return os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, NAMES)), None)


def install() -> bool:
    """Install Debian's chromium; False if that is not possible."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return False
    print("No Chromium here: installing Debian's …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        try:
            subprocess.run(
                ["apt-get", "--quiet", *arguments],
                env=environment,
                check=True,
                timeout=INSTALLED_WITHIN,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            print(f"Installation failed: {error}", file=sys.stderr)
            return False
    return True


def main() -> int:
    path = browser() or (browser() if install() else None)
    if path is None:
        line = "=" * 88
        print(f"{line}\nNO BROWSER: PLAYGROUND AND REPORTS NOT TESTED. Install chromium, or set BROWSER_PATH.\n{line}")
        return 0
    print(f"The browser is {path}", flush=True)
    command = [sys.executable, "-m", "pytest", "-o", "python_files=browse_*.py", str(HERE), *sys.argv[1:]]
    return subprocess.run(
        command, env={**os.environ, "BROWSER_PATH": path}, cwd=HERE.parents[1], check=False
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())

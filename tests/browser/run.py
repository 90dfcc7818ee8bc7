"""Run the tests of this folder in a Chromium, installing Debian's if missing and permitted (`make test-browser`).

Without a browser, print a notice and exit with 0.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.debian import install

HERE = Path(__file__).resolve().parent
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def browser() -> str | None:
    """Return the path of a Chromium: `BROWSER_PATH`, or the first one on the search path."""
    return os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, NAMES)), None)


def main() -> int:
    path = browser() or (browser() if install("chromium") else None)
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

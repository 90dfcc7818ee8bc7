"""The servers of the packages that have one."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["serving"]

START_SECONDS = 120


@contextlib.contextmanager
def serving(package: str, rows: Path, *flags: str, **variables: str) -> Iterator[str]:
    """Run the server of a package on a free port and yield its address."""
    log = rows.with_suffix(".log")
    command = [sys.executable, "-m", package, str(rows), "--port", "0", *flags]
    with log.open("wb") as sink:
        process = subprocess.Popen(command, env={**os.environ, **variables}, stdout=sink, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + START_SECONDS
        while not (match := re.search(r"running on (http://\S+)", log.read_text(encoding="utf-8"))):
            assert process.poll() is None, log.read_text(encoding="utf-8")
            assert time.monotonic() < end, "the server does not start"
            time.sleep(0.05)
        yield match[1]
    finally:
        process.kill()
        process.wait()

"""The commands of the READMEs of environments/, which the tests run without a network."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["SECONDS", "blocks", "command", "ran"]

FOLDER = Path(__file__).resolve().parents[2] / "environments"

NO_NETWORK = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9"),
    "NO_PROXY": "127.0.0.1",
}
"""Nothing listens at the proxy, so that a connection to another machine fails."""

SECONDS = 600


def blocks(package: str, test: str) -> list[str]:
    """Return the snippets of a package's README that the test file runs."""
    readme = (FOLDER / package / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"<!-- run by tests/environments/{re.escape(test)} -->\n```\w+\n(.*?)```", readme, re.DOTALL)


def command(block: str, name: str, meant: Mapping[str, str]) -> list[str]:
    """Return the words of the command that begins with `name`, with the values that placeholders stand for."""
    (line,) = [line for line in block.replace("\\\n", " ").splitlines() if line.startswith(f"{name} ")]
    for placeholder, value in meant.items():
        assert placeholder in line
        line = line.replace(placeholder, value)
    return shlex.split(line)


def ran(words: Sequence[str], folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, which is also its home, without a network; its errors are in its output."""
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **NO_NETWORK, "HOME": str(folder), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )

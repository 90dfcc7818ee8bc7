"""Commands that install optional dependencies where this process runs: from a checkout, a wheel or an image alike."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from shlex import quote

__all__ = ["PYTHON", "in_this_shell", "install_command"]


PYTHON = "python -m "
"""How commands in messages begin."""


def install_command(extra: str) -> str:
    """Return a shell command that installs the packages of an extra (`arrow`) into the environment of `python`.

    It names the packages, because Assay itself need not be in a package index.
    """
    return f"{PYTHON}pip install {' '.join(quote(requirement) for requirement in _requirements(extra))}"


def in_this_shell(text: str) -> str:
    """Name this process's interpreter in the commands of a message that its own user reads.

    Replies of the service, whose readers are elsewhere, do without.
    """
    return text.replace(PYTHON, f"{_python()} -m ")


@cache
def _requirements(extra: str) -> list[str]:
    """Return the requirements of an extra, those of the extras that it includes among them."""
    try:
        declared = requires("assay") or []
    except PackageNotFoundError:  # run from its source
        return [f"assay[{extra}]"]
    found = []
    for requirement in declared:
        specifier, _, marker = requirement.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'"):
            name, _, rest = specifier.strip().partition("[")
            found += _requirements(rest.rstrip("]")) if name == "assay" else [specifier.strip()]
    return found


def _python() -> str:
    """Return the shortest name of this interpreter that a shell in the working directory understands."""
    if Path(shutil.which("python") or os.devnull).absolute() == Path(sys.executable).with_name("python"):
        return "python"
    path = Path(sys.executable)
    return quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))

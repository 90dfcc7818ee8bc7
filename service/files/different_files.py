"""Check that the inputs and outputs of a command are different files, however they are spelled."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable

import click

__all__ = ["require_different_files"]

NamedPath = tuple[str, str | os.PathLike[str] | None]
"""The name of a file in messages, and its path: "-" for a standard stream, None for no file."""


def require_different_files(inputs: Iterable[NamedPath], outputs: Iterable[NamedPath]) -> None:
    """Raise click.UsageError if an output is the same file as an input or as another output.

    Links are followed, also from "-" to the file that a standard stream is redirected to; outputs that do not exist yet
    are compared by path.
    """
    taken = {file_identity(path, sys.stdin): name for name, path in inputs}
    for name, path in outputs:
        found = file_identity(path, sys.stdout)
        if found is not None and found in taken:
            raise click.UsageError(f"{taken[found]} and {name} are the same file: {path}")
        taken[found] = name


def file_identity(path: str | os.PathLike[str] | None, standard: object) -> tuple[int, int] | str | None:
    """Return a value that is equal for two spellings of one file; None if it cannot be overwritten.

    `standard` is the stream that "-" means.
    """
    if path is None:
        return None
    try:
        found = os.fstat(standard.fileno()) if path == "-" else os.stat(path)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # missing, or not a stream of the operating system
        return None if path == "-" else os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode) and (path == "-" or stat.S_ISCHR(found.st_mode)):
        return None  # a terminal, a pipe, /dev/null
    return (found.st_dev, found.st_ino)

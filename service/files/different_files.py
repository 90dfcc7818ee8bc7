"""What a command reads and writes must be different files, however they are spelled."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable

import click

__all__ = ["require_different_files"]

Named = tuple[str, str | os.PathLike[str] | None]
"""What messages call a file, and its path: "-" for a standard stream, None for a file that is not asked for."""


def require_different_files(inputs: Iterable[Named], outputs: Iterable[Named]) -> None:
    """Raise click.UsageError if an output is the same file as an input or as another output.

    Links of both kinds are followed, also from "-" to the file that a standard stream was redirected to; outputs that
    do not exist yet are compared by their paths.
    """
    taken = {identity(path, sys.stdin): name for name, path in inputs}
    for name, path in outputs:
        found = identity(path, sys.stdout)
        if found is not None and found in taken:
            raise click.UsageError(f"{taken[found]} and {name} are the same file: {path}")
        taken[found] = name


def identity(path: str | os.PathLike[str] | None, standard: object) -> tuple[int, int] | str | None:
    """What two spellings of one file have in common; None for what cannot be overwritten.

    `standard` is the stream that "-" means.
    """
    if path is None:
        return None
    try:
        found = os.fstat(standard.fileno()) if path == "-" else os.stat(path)  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):  # not there yet, or no stream of the operating system
        return None if path == "-" else os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode) and (path == "-" or stat.S_ISCHR(found.st_mode)):
        return None  # a terminal, a pipe, /dev/null
    return (found.st_dev, found.st_ino)

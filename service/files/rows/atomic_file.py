"""A file that appears whole at its path, or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["begun", "beside", "finish", "write_whole"]


def begun(target: str) -> BinaryIO:
    """Standard output, a device or a pipe as it is; a temporary file beside what will be a regular file."""
    if target == "-":
        return sys.stdout.buffer
    target = os.path.realpath(target)
    if os.path.exists(target) and not os.path.isfile(target):
        return open(target, "wb")
    folder, name = os.path.split(target)
    return tempfile.NamedTemporaryFile("wb", dir=folder, prefix=f".{name}.", delete=False)  # type: ignore[return-value]


def finish(stream: BinaryIO, target: str, good: bool) -> None:
    """Close what `begun` gave: a good file takes its place, another one is removed, also if it cannot be closed."""
    if target == "-":
        stream.flush()
        return
    target = os.path.realpath(target)
    is_temporary = stream.name != target
    try:
        with nullcontext() if good else suppress(OSError):
            stream.close()
        if is_temporary and good:
            os.chmod(stream.name, _usual_mode(target))
            os.replace(stream.name, target)
    except BaseException:
        good = False
        raise
    finally:
        if is_temporary and not good:
            os.unlink(stream.name)


def write_whole(target: str, content: bytes) -> None:
    """Write a file whole or not at all, or to standard output ("-"); raises OSError, which names the target."""
    try:
        stream = begun(target)
        try:
            stream.write(content)
        except BaseException:
            finish(stream, target, good=False)
            raise
        finish(stream, target, good=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if target == "-" else target) from error


def _usual_mode(target: str) -> int:
    """The mode that the file has, or would have had if it had been opened plainly."""
    if os.path.exists(target):
        return Path(target).stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def beside(target: str) -> str | None:
    """The folder where a temporary file of the output's size fits if the output itself does; None: any."""
    special = target == "-" or (os.path.exists(target) and not os.path.isfile(target))
    return None if special else os.path.dirname(os.path.realpath(target))

"""Files that appear at their path only when complete."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["close_atomic", "open_atomic", "temp_dir_for", "write_atomic"]


def open_atomic(target: str) -> BinaryIO:
    """Open standard output, a device or a pipe directly, anything else as a temporary file in the same directory."""
    if target == "-":
        return sys.stdout.buffer
    target = os.path.realpath(target)
    if os.path.exists(target) and not os.path.isfile(target):
        return open(target, "wb")
    folder, name = os.path.split(target)
    return tempfile.NamedTemporaryFile("wb", dir=folder, prefix=f".{name}.", delete=False)  # type: ignore[return-value]


def close_atomic(stream: BinaryIO, target: str, good: bool) -> None:
    """Close a stream of `open_atomic`: move the file to its target if `good`, else remove it."""
    if target == "-":
        stream.flush()
        return
    target = os.path.realpath(target)
    is_temporary = stream.name != target
    try:
        with nullcontext() if good else suppress(OSError):
            stream.close()
        if is_temporary and good:
            os.chmod(stream.name, _mode_for(target))
            os.replace(stream.name, target)
    except BaseException:
        good = False
        raise
    finally:
        if is_temporary and not good:
            os.unlink(stream.name)


def write_atomic(target: str, content: bytes) -> None:
    """Write a file completely or not at all, or to standard output ("-"); raises OSError that names the target."""
    try:
        stream = open_atomic(target)
        try:
            stream.write(content)
        except BaseException:
            close_atomic(stream, target, good=False)
            raise
        close_atomic(stream, target, good=True)
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if target == "-" else target) from error


def _mode_for(target: str) -> int:
    """Return the mode of the file, or the default mode of a new file."""
    if os.path.exists(target):
        return Path(target).stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def temp_dir_for(target: str) -> str | None:
    """Return the directory for temporary files of the output's size: that of the output; None for the default."""
    special = target == "-" or (os.path.exists(target) and not os.path.isfile(target))
    return None if special else os.path.dirname(os.path.realpath(target))

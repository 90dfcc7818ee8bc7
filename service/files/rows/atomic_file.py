"""Files that appear at their path only when complete."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["atomic_file", "temp_dir_for", "write_atomic"]


@contextmanager
def atomic_file(target: str) -> Iterator[IO[bytes]]:
    """Yield a stream; when the context ends without an exception, its content replaces the file.

    Standard output ("-"), a device or a pipe is written directly.
    """
    if target == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    target = os.path.realpath(target)
    folder, name = os.path.split(target)
    direct = _is_special(target)
    stream: IO[bytes]
    if direct:
        stream = open(target, "wb")  # noqa: SIM115
    else:
        stream = tempfile.NamedTemporaryFile("wb", dir=folder, prefix=f".{name}.", delete=False)  # noqa: SIM115
    try:
        yield stream
        stream.close()
        if not direct:
            os.chmod(stream.name, _mode_for(target))
            os.replace(stream.name, target)
    except BaseException:
        with suppress(OSError):
            stream.close()
        if not direct:
            os.unlink(stream.name)
        raise


def write_atomic(target: str, content: bytes) -> None:
    """Write a file completely or not at all, or to standard output ("-"); raises OSError that names the target."""
    try:
        with atomic_file(target) as stream:
            stream.write(content)
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
    return None if target == "-" or _is_special(target) else os.path.dirname(os.path.realpath(target))


def _is_special(target: str) -> bool:
    return os.path.exists(target) and not os.path.isfile(target)

"""Reads files that others may have written, and that are read whole: only regular ones, and up to a limit."""

from __future__ import annotations

import errno
import os
import stat

MEBIBYTE = 1 << 20


def read_whole(path: str | os.PathLike[str], most: int = MEBIBYTE) -> bytes:
    """Return the bytes of a regular file; raises OSError, also for another kind of file and for more than `most` bytes.

    A pipe or a device could be without an end, or keep the command waiting.
    """
    with open(path, "rb", opener=open_nonblocking) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        content = file.read() if status.st_size <= most else b""
    if max(status.st_size, len(content)) > most:
        raise OSError(errno.EFBIG, f"it has more than {shown_size(most)}", os.fspath(path))
    return content


def open_nonblocking(path: str, flags: int) -> int:
    """Open without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def shown_size(size: int) -> str:
    """Return a number of bytes, a multiple of 1,048,576, for a message."""
    return f"{size // MEBIBYTE:,} MiB"

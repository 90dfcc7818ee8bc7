"""Writes files that appear under their names only when complete, and adds whole lines to files.

New content is written to a temporary folder beside the target, and then takes the target's name. Standard output,
devices and pipes cannot be replaced, and are written directly.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO

from ...terminal import say

Write = Callable[[Iterable[bytes]], None]
"""Writes rows, each one line of JSON without line end; raises OSError."""

DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/(?:std(?P<name>in|out|err)|fd/(?P<number>\d+))")
STANDARD = {"in": 0, "out": 1, "err": 2}


def require_writable(target: str) -> None:
    """Raise OSError, which names the target, unless it can be written; finds out before anything is computed."""
    if not is_replaced(target):
        return
    path = os.path.realpath(target)
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOENT, "the directory does not exist", target)
    if not os.access(folder, os.W_OK | os.X_OK) or (os.path.exists(path) and not os.access(path, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), target)


@contextmanager
def replaced(target: str) -> Iterator[str]:
    """Yield a path for new content; when the context ends without an exception, it replaces the target.

    If nothing was written to the path, the target is removed. A folder replaces a whole folder.
    """
    require_writable(target)
    path = os.path.realpath(target)
    folder = os.path.join(os.path.dirname(path), f".assay-{secrets.token_hex(8)}")
    partial = os.path.join(folder, os.path.basename(path))
    _folders.add(folder)  # before there is one: a signal may come at any time
    try:
        os.mkdir(folder, 0o700)
        yield partial
        if os.path.exists(partial):
            if os.path.exists(path):
                os.chmod(partial, stat.S_IMODE(os.stat(path).st_mode) & 0o777)
            if os.path.isdir(partial) and os.path.isdir(path):
                os.rename(path, os.path.join(folder, ".replaced"))
            os.replace(partial, path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.discard(folder)


_folders: set[str] = set()
"""The temporary folders of this process."""


def remove_partial_files() -> None:
    """Remove what contexts have left that a signal interrupted while they began."""
    while _folders:
        shutil.rmtree(_folders.pop(), ignore_errors=True)


@contextmanager
def output_file(target: str) -> Iterator[IO[bytes]]:
    """Yield a stream; when the context ends without an exception, its content replaces the file.

    Standard output ("-"), a device or a pipe is written directly.
    """
    if target == "-":
        stream = standard_output()
        try:
            yield stream
        finally:
            stream.flush()
    elif is_special(target):
        with open_special(target) as stream:
            yield stream
    else:
        with replaced(target) as partial, open(partial, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())


def standard_output() -> IO[bytes]:
    """Return the binary stream; raises OSError if the shell has closed it."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sys.stdout.buffer


@contextmanager
def appended_file(target: str, beginning: bytes = b"{") -> Iterator[Write]:
    """Yield a function that adds lines to a file; a new file without a line is removed.

    beginning: of every line, as `_end_last_line` checks. Raises OSError, EBUSY if another command adds to the file.
    """
    is_new = not os.path.exists(target)
    with open(target, "ab+", buffering=0) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError(errno.EBUSY, "another command is adding to this file; wait until it ends", target) from None
        except OSError:  # a file system without locks
            pass
        try:
            _end_last_line(stream.fileno(), target, beginning)
            yield lines_to(stream)
        finally:
            if is_new and not os.fstat(stream.fileno()).st_size:
                os.unlink(os.path.realpath(target))


def _end_last_line(descriptor: int, target: str, beginning: bytes) -> None:
    """Remove a last line that a killed command has not finished; raises OSError if it is none of a command's."""
    if not os.fstat(descriptor).st_size:
        return
    no_end = OSError(errno.EINVAL, "its last line has no end; complete or remove that line", target)
    with mmap.mmap(descriptor, 0, access=mmap.ACCESS_COPY) as content:
        end = content.rfind(b"\n") + 1
        if end == len(content):
            return
        if content[end : end + len(beginning)] != beginning[: len(content) - end]:
            raise no_end
        line = content[end:]
    try:
        json.loads(line)  # which takes NaN, as programs write it
        os.write(descriptor, b"\n")
    except RecursionError:
        raise no_end from None
    except ValueError:
        os.ftruncate(descriptor, end)
        say(f"warning: {target}: its last line was unfinished and is removed", err=True)


def lines_to(stream: IO[bytes]) -> Write:
    """Return a function that writes lines; of a line that does not fit, nothing stays in a regular file."""
    raw = getattr(stream, "raw", stream)  # which says how much it has written

    def write(rows: Iterable[bytes]) -> None:
        content, done = b"".join(row + b"\n" for row in rows), 0
        try:
            while done < len(content):
                written = raw.write(memoryview(content)[done:])
                if written is None:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
                done += written
        except OSError:
            _remove_last(raw.fileno(), done - content.rfind(b"\n", 0, done) - 1)
            raise

    return write


def _remove_last(descriptor: int, count: int) -> None:
    """Remove the last bytes written to a regular file, unless another process has added to it since."""
    status = os.fstat(descriptor)
    if count and stat.S_ISREG(status.st_mode) and os.lseek(descriptor, 0, os.SEEK_CUR) == status.st_size:
        os.ftruncate(descriptor, os.lseek(descriptor, -count, os.SEEK_CUR))


def write_document(target: str, document: bytes) -> None:
    """Write one document, which ends with one line end, completely or not at all; raises OSError that names it."""
    try:
        with output_file(target) as stream:
            stream.write(document.rstrip(b"\n") + b"\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if target == "-" else target) from error


def temp_dir_for(target: str) -> str | None:
    """Return the directory for temporary files as large as the output: its own; None for the default."""
    return os.path.dirname(os.path.realpath(target)) if is_replaced(target) else None


def is_replaced(target: str) -> bool:
    """Return whether new content replaces the target, which is not standard output nor `is_special`."""
    return target != "-" and not is_special(target)


def is_special(target: str) -> bool:
    """Return whether a path is a device, a pipe or an open descriptor, which cannot be replaced."""
    return _descriptor_of(target) is not None or (os.path.exists(target) and not os.path.isfile(target))


def open_special(target: str) -> IO[bytes]:
    """Open a special path for writing; a descriptor continues at its position, also in a regular file."""
    number = _descriptor_of(target)
    try:
        return open(target if number is None else os.dup(number), "wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, target) from None


def _descriptor_of(target: str) -> int | None:
    named = DESCRIPTOR.fullmatch(target)
    if named is None:
        return None
    return STANDARD[named["name"]] if named["name"] else int(named["number"])

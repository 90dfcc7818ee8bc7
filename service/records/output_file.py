"""Writes files that appear under their names only when complete, and keeps other commands from writing them meanwhile.

Content goes to a partial file beside the target, which an exclusive lock (`flock`) protects until it takes the target's
name. A partial file without a lock is what a killed command left behind: the next command to the same target removes
it. Standard output, devices and pipes cannot be replaced, and are written directly.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import IO, NoReturn

from ..interruption import uninterrupted

Write = Callable[[Iterable[bytes]], None]
"""Writes rows, each one line of JSON without line end; raises OSError."""

BUSY = "another command is writing this file; wait until it ends, or name another file"
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
"""Errors of `flock` on file systems without locks."""

MAX_NAME_BYTES = 255

DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/(?:std(?P<name>in|out|err)|fd/(?P<number>\d+))")
STANDARD = {"in": 0, "out": 1, "err": 2}


class Claim:
    """The right to write one file, held from its creation until `complete` or `discard`.

    stream: for the content, not used by those who append. append: rows are added to the file as they come.
    together: several files are completed at one moment, by `complete_together`. Raises OSError that names the target:
    EBUSY if another command holds it.
    """

    def __init__(self, target: str, append: bool = False, together: bool = False) -> None:
        self.target = target
        self.path = os.path.realpath(target)
        self.append = append
        self.together = together
        self.was_written = False
        self.partial = partial_name(self.path)
        try:
            self.stream: IO[bytes] = open(_locked(self.partial), "wb")  # noqa: SIM115
            try:
                if os.path.exists(self.path):
                    if not os.access(self.path, os.W_OK):
                        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
                    os.fchmod(self.stream.fileno(), stat.S_IMODE(os.stat(self.path).st_mode) & 0o777)
                if append:
                    _require_whole_lines(self.path)
            except BaseException:
                self.discard()
                raise
        except OSError as error:
            absent = error.errno == errno.ENOENT
            raise OSError(error.errno, "the directory does not exist" if absent else error.strerror, target) from None

    def complete(self) -> None:
        """Give the content the name of the target, and release it."""
        if self.stream.closed:
            return
        self.stream.flush()
        os.fsync(self.stream.fileno())
        os.replace(self.partial, self.path)
        self.was_written = True
        self.stream.close()
        _sync_folder(os.path.dirname(self.path))

    def discard(self) -> None:
        """Remove the partial file, if it is not complete, and release the target."""
        if not self.stream.closed:
            with suppress(OSError):
                os.unlink(self.partial)
            with suppress(OSError):  # bytes that a full disk has not taken
                self.stream.close()


_claims: dict[str, Claim] = {}
"""The claims of this process by real path. Functions that write a file find the claim of their command here."""


def claim(target: str, append: bool = False, together: bool = False) -> Claim | None:
    """Return the claim on a file, a new one if this process has none; None for targets that are written directly."""
    if target == "-" or is_special(target):
        return None
    path = os.path.realpath(target)
    held = _claims.get(path)
    if held is None or held.stream.closed:
        with uninterrupted():  # a new partial file is known here
            held = _claims[path] = Claim(target, append, together)
    return held


def release_claims() -> None:
    """Discard every claim of this process that is not complete."""
    with uninterrupted():
        for held in _claims.values():
            held.discard()
        _claims.clear()


def what_was_written() -> list[str] | None:
    """Return a sentence for each output that was written, whole or in part; None if nothing is claimed."""
    if not _claims:
        return None
    written = [held for held in _claims.values() if held.was_written]
    return [
        f"finished rows were added to {held.target}" if held.append else f"{held.target} is complete"
        for held in written
    ]


@contextmanager
def output_file(target: str) -> Iterator[IO[bytes]]:
    """Yield a stream; when the context ends without an exception, its content replaces the file.

    Standard output ("-"), a device or a pipe is written directly.
    """
    if target == "-":
        try:
            yield sys.stdout.buffer
        finally:
            sys.stdout.buffer.flush()
        return
    held = claim(target)
    if held is None:
        with open_special(target) as stream:
            yield stream
        return
    try:
        yield held.stream
        if held.together:
            held.stream.flush()
        else:
            complete_together([held])
    except BaseException:
        held.discard()
        raise


def complete_together(claims: Iterable[Claim], removed: Iterable[str] = ()) -> None:
    """Complete files at one moment, in their order, and remove others: no signal comes between them."""
    with uninterrupted():
        for path in removed:
            with suppress(FileNotFoundError):
                os.unlink(path)
        for held in claims:
            held.complete()


def write_document(target: str, document: bytes) -> None:
    """Write one document, which ends with one line end, completely or not at all; raises OSError that names it."""
    try:
        with output_file(target) as stream:
            stream.write(document.rstrip(b"\n") + b"\n")
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if target == "-" else target) from error


def temp_dir_for(target: str) -> str | None:
    """Return the directory for temporary files as large as the output: its own; None for the default."""
    return None if target == "-" or is_special(target) else os.path.dirname(os.path.realpath(target))


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


def partial_name(path: str) -> str:
    """Return the name of the partial file of a target: the same for every command that writes it."""
    folder, name = os.path.split(path)
    partial = f".{name}.assay-partial"
    if len(os.fsencode(partial)) > MAX_NAME_BYTES:
        partial = f".{sha256(os.fsencode(name)).hexdigest()}.assay-partial"
    return os.path.join(folder, partial)


def _descriptor_of(target: str) -> int | None:
    named = DESCRIPTOR.fullmatch(target)
    if named is None:
        return None
    return STANDARD[named["name"]] if named["name"] else int(named["number"])


def _locked(partial: str) -> int:
    """Create a file that no other process has, and lock it; return its descriptor. Remove one that nobody locks."""
    while True:
        try:
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            is_new = True
        except FileExistsError:
            try:
                descriptor = os.open(partial, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except FileNotFoundError:  # its command has just ended
                continue
            is_new = False
        try:
            _lock(descriptor, partial, is_new)
            if _is_named(descriptor, partial):
                if is_new:
                    return descriptor
                os.unlink(partial)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, partial: str, is_new: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            if not is_new:  # whether its command still runs cannot be known
                _raise_busy(f"{BUSY}. If no command is, remove {partial}")
        elif error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            _raise_busy(BUSY)
        else:
            raise


def _raise_busy(sentence: str) -> NoReturn:
    raise OSError(errno.EBUSY, sentence)


def _is_named(descriptor: int, path: str) -> bool:
    """Return whether the path still names this file: the command that had it may have ended meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _require_whole_lines(path: str) -> None:
    """Raise OSError if a file that is appended to does not end with a line end."""
    with suppress(FileNotFoundError), open(path, "rb") as stream:
        if stream.seek(0, os.SEEK_END) and stream.seek(-1, os.SEEK_END) >= 0 and stream.read(1) != b"\n":
            raise OSError(errno.EINVAL, "its last line has no end; complete or remove that line before --append")


def _sync_folder(folder: str) -> None:
    """Make the new name durable, where folders can be synchronized."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

"""The process that writes the lines of `assay score`, so that every line in its output is whole.

A process can be killed inside a write, which then stops at any page of the file. The process that scores therefore
sends its lines to this one, which passes on whole lines only: when the scorer is gone, killed or not, what it had
finished is written and what it had begun is not. Where a disk is full, the file is cut back to its last whole line.
Runs on its own (`python line_keeper.py`), from standard input to standard output; the exit status is the `errno` of a
write that failed.
"""

from __future__ import annotations

import os
import signal
import stat

BLOCK = 1 << 16


def keep(source: int, target: int) -> None:
    """Copy lines between two file descriptors until the source ends; raises OSError where a write fails."""
    begun: list[bytes] = []
    while block := os.read(source, BLOCK):
        end = block.rfind(b"\n") + 1
        if not end:
            begun.append(block)
            continue
        begun.append(block[:end])
        _write_all(target, b"".join(begun))
        begun = [block[end:]]


def _write_all(target: int, lines: bytes) -> None:
    rest = memoryview(lines)
    try:
        while rest:
            rest = rest[os.write(target, rest) :]
    except OSError:
        written = lines[: len(lines) - len(rest)]
        _take_back(target, len(written) - written.rfind(b"\n") - 1)
        raise


def _take_back(target: int, count: int) -> None:
    """Cut the bytes written last off a regular file; from anything else nothing can be taken back."""
    if stat.S_ISREG(os.fstat(target).st_mode):
        end = os.lseek(target, -count, os.SEEK_CUR)
        os.ftruncate(target, end)


def main() -> int:
    """What ends the scorer from the terminal (Ctrl-C, a closed window) must not end this process before its input."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        keep(0, 1)
    except OSError as error:
        return error.errno or 1
    return 0


if __name__ == "__main__":
    os._exit(main())

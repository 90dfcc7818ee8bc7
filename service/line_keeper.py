"""Writes the output of `assay score` in a separate process, so that every line in it is whole.

A process that is killed inside a write may leave part of a line. The scorer therefore pipes its lines to this process,
which writes only complete ones: when the scorer ends, even if killed, its complete lines are written. If the disk is
full, the file is truncated to its last whole line. Runs as a script (`python line_keeper.py`) from standard input to
standard output; the exit status is the `errno` of a failed write.
"""

from __future__ import annotations

import os
import signal
import stat

BLOCK = 1 << 16


def copy_lines(source: int, target: int) -> None:
    """Copy whole lines between two file descriptors until the source ends; raises OSError if a write fails."""
    partial: list[bytes] = []
    while block := os.read(source, BLOCK):
        end = block.rfind(b"\n") + 1
        if not end:
            partial.append(block)
            continue
        partial.append(block[:end])
        _write_all(target, b"".join(partial))
        partial = [block[end:]]


def _write_all(target: int, lines: bytes) -> None:
    unwritten = memoryview(lines)
    try:
        while unwritten:
            unwritten = unwritten[os.write(target, unwritten) :]
    except OSError:
        written = lines[: len(lines) - len(unwritten)]
        _truncate(target, len(written) - written.rfind(b"\n") - 1)
        raise


def _truncate(target: int, count: int) -> None:
    """Remove the last `count` bytes written, if the target is a regular file."""
    if stat.S_ISREG(os.fstat(target).st_mode):
        end = os.lseek(target, -count, os.SEEK_CUR)
        os.ftruncate(target, end)


def main() -> int:
    """Copy standard input to standard output; return the exit status."""
    # Signals that end the scorer (Ctrl-C, a closed terminal) must not end this process before its input ends.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    try:
        copy_lines(0, 1)
    except OSError as error:
        return error.errno or 1
    return 0


if __name__ == "__main__":
    os._exit(main())

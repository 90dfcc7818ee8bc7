"""Writes rows in any format: to a file that appears only when complete, or as they come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import IO

from .. import line_keeper
from .files import is_columnar
from .output_file import Claim, Write, claim, is_special, open_special, output_file
from .rows import PIECE_ROWS

WRITE_BYTES = 4 * 2**20


def complete_output(target: str, fmt: str) -> AbstractContextManager[Write]:
    """Return the output of rows in a format of `formats` to a path, or to standard output ("-")."""
    if is_columnar(fmt):
        from .rows_as_columns import json_as_columns  # needs the extra

        return json_as_columns(target, fmt)
    return json_output(target, fmt)


def json_output(target: str, fmt: str) -> AbstractContextManager[Write]:
    """Return the output of rows as JSONL or JSON, which discards what is incomplete after an exception.

    JSONL for standard output, a device, a pipe or a file claimed for appending is written as it comes, always in whole
    lines (see `line_keeper`).
    """
    if fmt == "json":
        return _array(target)
    held = claim(target) if target != "-" else None
    if held is None or held.append:
        return _kept_lines(target, held)
    return _lines(target)


@contextmanager
def _lines(target: str) -> Iterator[Write]:
    with output_file(target) as stream:
        yield lambda rows: stream.writelines(row + b"\n" for row in rows)


@contextmanager
def _array(target: str) -> Iterator[Write]:
    with output_file(target) as stream:
        before = b"[\n"

        def write(rows: Iterable[bytes]) -> None:
            nonlocal before
            for row in rows:
                stream.write(before)
                stream.write(row)
                before = b",\n"

        yield write
        stream.write(b"[]\n" if before == b"[\n" else b"\n]\n")


@contextmanager
def _kept_lines(target: str, held: Claim | None) -> Iterator[Write]:
    """Write lines through a process that outlives this one; a file that is missing is created with its first row."""
    opened: IO[bytes] | None = open_special(target) if is_special(target) else None
    keepers: list[subprocess.Popen[bytes]] = []

    def keeper() -> subprocess.Popen[bytes]:
        if not keepers:
            keepers.append(_start_keeper(target, opened, held))
        return keepers[0]

    def write(rows: Iterable[bytes]) -> None:
        content = memoryview(b"".join(row + b"\n" for row in rows))
        if not content:
            return
        process = keeper()
        assert process.stdin is not None
        try:
            while content:
                content = content[process.stdin.write(content) :]
                if held is not None:
                    held.was_written = True
        except BrokenPipeError:
            _raise_error_of(process)

    try:
        yield write
        for process in keepers:
            _end(process)
            _raise_error_of(process)
    finally:
        for process in keepers:
            _end(process)
        if opened is not None:
            opened.close()
        if held is not None:
            held.discard()


def _start_keeper(target: str, opened: IO[bytes] | None, held: Claim | None) -> subprocess.Popen[bytes]:
    """Start the process that writes whole lines. It inherits the lock, and so holds it for as long as it writes."""
    command = [sys.executable, "-I", "-S", line_keeper.__file__]
    stream = open(held.path, "ab") if held is not None else opened  # noqa: SIM115
    locks = (held.stream.fileno(),) if held is not None else ()
    try:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=stream, bufsize=0, start_new_session=True, pass_fds=locks
        )
    finally:
        if held is not None and stream is not None:
            stream.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()


def _raise_error_of(keeper: subprocess.Popen[bytes]) -> None:
    status = keeper.wait()
    if status > 0:
        raise OSError(status, os.strerror(status))
    if status < 0:
        raise OSError(f"the writing process was killed by signal {-status}")


def output_pieces(rows: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield lists of consecutive rows, of at most `PIECE_ROWS` and about `WRITE_BYTES`, each written at once."""
    piece: list[bytes] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += len(row)
        if len(piece) == PIECE_ROWS or size >= WRITE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece

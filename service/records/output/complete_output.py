"""Writes rows in any format: to a file that appears only when complete, or as they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ..files.opening import is_columnar
from ..rows.rows import PIECE_ROWS
from .output_file import Write, appended_file, is_replaced, lines_to, output_file

WRITE_BYTES = 4 * 2**20


def complete_output(target: str, fmt: str, append: bool = False) -> AbstractContextManager[Write]:
    """Return the output of rows in a format of `formats` to a path, or to standard output ("-")."""
    if is_columnar(fmt):
        from .rows_as_columns import json_as_columns  # needs the extra

        return json_as_columns(target, fmt)
    return json_output(target, fmt, append)


def json_output(target: str, fmt: str, append: bool = False) -> AbstractContextManager[Write]:
    """Return the output of rows as JSONL or JSON, which discards what is incomplete after an exception.

    JSONL for standard output, a device, a pipe or a file to append to is written as it comes.
    """
    if fmt == "json":
        return _array(target)
    return appended_file(target) if append and is_replaced(target) else _lines(target)


@contextmanager
def _lines(target: str) -> Iterator[Write]:
    with output_file(target) as stream:
        if is_replaced(target):
            yield lambda rows: stream.writelines(row + b"\n" for row in rows)
        else:
            yield lines_to(stream)


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

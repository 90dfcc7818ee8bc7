"""Writes rows to a file of any format, which appears only when complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from .formats import is_columnar
from .rows.output import Write, array_output, atomic_file
from .rows.rows import PIECE_ROWS

__all__ = ["complete_output", "output_pieces"]

WRITE_BYTES = 4 * 2**20


def complete_output(target: str, fmt: str) -> AbstractContextManager[Write]:
    """Return the output of rows in a format (those of `formats`) to a path, or to standard output ("-")."""
    if is_columnar(fmt):
        from .columns.from_rows import json_as_columns  # needs the extra

        return json_as_columns(target, fmt)
    return array_output(target) if fmt == "json" else _complete_lines(target)


@contextmanager
def _complete_lines(target: str) -> Iterator[Write]:
    with atomic_file(target) as stream:
        yield lambda rows: stream.writelines(row + b"\n" for row in rows)


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

"""Canonical words of texts, by the kernel that reads them for scoring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from ...kernels.column import column_of
from ...kernels.text.unicode_tables import tables
from ...kernels.text.words import canonical_texts
from ..scoring.text_columns import utf8
from ..scoring.workspaces import borrow_workspace
from .schema import Phrase

__all__ = ["canons", "numbered", "phrases_of"]


def canons(texts: Sequence[str]) -> list[str]:
    """Return `canon` of each text (SCORE.md section 2): its words joined by single spaces."""
    column = column_of([utf8(text) for text in texts])
    canon = np.empty(16 * int(column.offsets[-1]) + 8, np.uint8)
    offsets = np.zeros(column.rows + 1, np.int64)
    canonical_texts(canon, offsets, *column, tables(), borrow_workspace(int(column.lengths.max(initial=0))))
    written = canon[: int(offsets[-1])].tobytes()
    return [written[start:stop].decode() for start, stop in pairwise(offsets.tolist())]


def phrases_of(texts: Sequence[str]) -> list[Phrase]:
    """Return each text with its canonical words."""
    return [
        Phrase(text=text, words=canon.split(" ") if canon else [])
        for text, canon in zip(texts, canons(texts), strict=True)
    ]


def numbered(rows: Iterable[Sequence[str]], numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """Assign numbers to strings of sequences, as kernels take them: values and offsets, int64 and read-only.

    New strings are added to `numbers`.
    """
    lengths, values = [0], []
    for row in rows:
        values += [numbers.setdefault(string, len(numbers)) for string in row]
        lengths.append(len(row))
    columns = np.array(values, np.int64), np.cumsum(lengths, dtype=np.int64)
    for column in columns:
        column.setflags(write=False)
    return columns

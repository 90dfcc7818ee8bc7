"""Texts: positions in bytes, code points, UTF-16 units and lines; canonical words, by the kernel used for scoring."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np

from ...kernels.column import column_of, frozen
from ...kernels.text.unicode_tables import tables
from ...kernels.text.words import canonical_texts
from ..scoring.text_columns import utf8
from ..scoring.workspaces import borrow_workspace
from .schema import Phrase, Place

__all__ = ["Text", "canons", "phrases_of"]

LF, CR = 0x0A, 0x0D


class Text:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.data = frozen(np.frombuffer(content, np.uint8), np.uint8)

    def place(self, start: int, stop: int) -> Place:
        characters, utf16, lines = self._counts
        return Place(
            line=int(lines[start]) + 1,
            bytes=(start, stop),
            characters=(int(characters[start]), int(characters[stop])),
            utf16=(int(utf16[start]), int(utf16[stop])),
        )

    def part(self, start: int, stop: int) -> str:
        return self.content[start:stop].decode()

    def trimmed(self, start: int, stop: int) -> tuple[int, int]:
        part = self.content[start:stop]
        left = len(part) - len(part.lstrip())
        return (start + left, start + len(part.rstrip())) if left < len(part) else (start, start)

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return code points, UTF-16 units and line ends before every byte, int64 (bytes + 1,) each."""
        data = self.data
        opens = (data & 0xC0) != 0x80
        ends = data == LF
        ends[:-1] |= (data[:-1] == CR) & (data[1:] != LF)
        ends[-1:] |= data[-1:] == CR
        counts = opens, opens.astype(np.int64) + (data >= 0xF0), ends
        characters, utf16, lines = (np.concatenate(([0], np.cumsum(count, dtype=np.int64))) for count in counts)
        return characters, utf16, lines


def canons(texts: Sequence[str]) -> list[str]:
    column = column_of([utf8(text) for text in texts])
    canon = np.empty(16 * int(column.offsets[-1]) + 8, np.uint8)
    offsets = np.zeros(column.rows + 1, np.int64)
    canonical_texts(canon, offsets, *column, tables(), borrow_workspace(int(column.lengths.max(initial=0))))
    written = canon[: int(offsets[-1])].tobytes()
    return [written[start:stop].decode() for start, stop in pairwise(offsets.tolist())]


def phrases_of(texts: Sequence[str]) -> list[Phrase]:
    return [
        Phrase(text=text, words=canon.split(" ") if canon else [])
        for text, canon in zip(texts, canons(texts), strict=True)
    ]

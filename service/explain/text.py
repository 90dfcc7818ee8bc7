"""A text whose positions are known in bytes, code points, UTF-16 units and lines."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...kernels.column import frozen
from .schema import Place

__all__ = ["Text"]

LF, CR = 0x0A, 0x0D


class Text:
    """UTF-8 text to be shown; spans are in bytes."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.data = frozen(np.frombuffer(content, np.uint8), np.uint8)

    def place(self, start: int, stop: int) -> Place:
        """Return the place of `content[start:stop]`; both ends are character boundaries."""
        characters, utf16, lines = self._counts
        return Place(
            line=int(lines[start]) + 1,
            bytes=(start, stop),
            characters=(int(characters[start]), int(characters[stop])),
            utf16=(int(utf16[start]), int(utf16[stop])),
        )

    def part(self, start: int, stop: int) -> str:
        """Return `content[start:stop]` as a string."""
        return self.content[start:stop].decode()

    def trimmed(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span without ASCII white space at both ends."""
        part = self.content[start:stop]
        left = len(part) - len(part.lstrip())
        return (start + left, start + len(part.rstrip())) if left < len(part) else (start, start)

    @cached_property
    def _counts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Code points, UTF-16 units and line ends before every byte, int64 (bytes + 1,) each.

        A code point counts with its first byte: every span ends or begins there. Lines end at LF, CR LF or CR.
        """
        data = self.data
        opens = (data & 0xC0) != 0x80
        ends = data == LF
        ends[:-1] |= (data[:-1] == CR) & (data[1:] != LF)
        ends[-1:] |= data[-1:] == CR
        return _before(opens), _before(opens.astype(np.int64) + (data >= 0xF0)), _before(ends)


def _before(counts: np.ndarray) -> np.ndarray:
    sums = np.zeros(counts.shape[0] + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums

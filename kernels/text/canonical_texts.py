"""Canonical texts of a column: `canon(s)` of SCORE.md section 2, for tests, explanations and metrics."""

from __future__ import annotations

from ..compiler.jit import hot_kernel
from ..memory.workspace import NORM, SPAN_STARTS, SPAN_STOPS
from .words import read_words

__all__ = ["canonical_texts"]

SPACE = 0x20


@hot_kernel
def canonical_texts(canon, canon_offsets, data, offsets, tables, workspace):
    """Write the canonical words of each text, joined by single spaces.

    canon: uint8, 16 bytes for each byte of text, written. canon_offsets: int64 (rows + 1,), written after its first
    entry, which must be 0. data, offsets: the text column. workspace: large enough for the longest text.
    """
    norm = workspace.bytes[NORM]
    end = 0
    for row in range(offsets.shape[0] - 1):
        words = read_words(workspace, tables, data, offsets[row], offsets[row + 1])
        for k in range(words):
            if k:
                canon[end] = SPACE
                end += 1
            for i in range(workspace.ints[SPAN_STARTS, k], workspace.ints[SPAN_STOPS, k]):
                canon[end] = norm[i]
                end += 1
        canon_offsets[row + 1] = end

"""Step recall and precision: how many steps have a similar one on the other side (equations 1, 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..text.embedders import cosines

__all__ = ["THRESHOLD", "generated_steps", "matched"]

THRESHOLD = 0.7
CELLS = 1 << 22
"""Cosines computed at once, to limit memory."""


def generated_steps(text: str) -> list[str]:
    """Return the non-blank lines of a generated protocol, stripped; numbers and bullets stay."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def matched(reference: Sequence[str], generated: Sequence[str], vectors: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """Count the reference steps, and the generated ones, with a cosine of 0.7 or more to one on the other side."""
    if not reference or not generated:
        return 0, 0
    theirs = np.array([vectors[step] for step in generated])
    found, near = 0, np.zeros(len(generated), bool)
    rows = max(1, CELLS // len(generated))
    for begin in range(0, len(reference), rows):
        close = cosines(np.array([vectors[step] for step in reference[begin : begin + rows]]), theirs) >= THRESHOLD
        found += int(close.any(axis=1).sum())
        near |= close.any(axis=0)
    return found, int(near.sum())

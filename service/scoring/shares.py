"""References and the responses that point at them, share by share: a thread reads the references it scores against.

No thread waits until all references are read, and what is read of them is used while it is in the cache.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .threads import slices_of

__all__ = ["MIN_REFERENCES", "MIN_ROWS", "Share", "shares_of"]

MIN_REFERENCES = 64
"""With fewer, there is little to gain, and perhaps they are remembered."""

MAX_ROWS = 512
"""Responses of a share, on average: some two milliseconds of work."""

MIN_ROWS = 128
"""Responses of the shortest share: half a millisecond of work. Handing out less costs more than it evens out."""

UNEVEN = 2
"""Times as many responses as a share has on average that one may have."""


class Share(NamedTuple):
    """The references [first, last) and the responses that point at them, which lie together."""

    first: int
    last: int
    first_response: int
    last_response: int


def shares_of(reference_index: np.ndarray, references: int, threads: int) -> list[Share] | None:
    """Shares of all references and all responses. reference_index: int64 (n,), of which each entry names a reference.

    None where there are few references, or responses do not come in the order of their references, or too many of them
    point at a few: then references are better read first.
    """
    rows = reference_index.shape[0]
    if references < MIN_REFERENCES or rows < references or (np.diff(reference_index) < 0).any():
        return None
    each = rows / references
    cuts = slices_of(references, threads, max(1, round(MAX_ROWS / each)), max(1, round(MIN_ROWS / each)))
    bounds = np.searchsorted(reference_index, [first for first, _ in cuts] + [references]).tolist()
    shares = [Share(*cut, *place) for cut, place in zip(cuts, pairwise(bounds), strict=True)]
    if any(last - first > UNEVEN * max(MIN_ROWS, each * (b - a)) for a, b, first, last in shares):
        return None
    return shares

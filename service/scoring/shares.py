"""Shares of a batch: a thread reads some references and scores the responses that point at them.

No thread waits until all references are read, and each is used while it is in the CPU's cache.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .threads import slices_of

__all__ = ["MIN_REFERENCES", "MIN_ROWS", "Share", "shares_of"]

MIN_REFERENCES = 64
"""With fewer references there is little to gain."""

MAX_ROWS = 512
"""Responses of a share on average: about two milliseconds of work."""

MIN_ROWS = 128
"""Responses of the smallest share: half a millisecond of work. Smaller shares cost more than they balance."""

MAX_IMBALANCE = 2
"""Responses of a share relative to the average."""


class Share(NamedTuple):
    """The references [first, last) and the responses that point at them, which are contiguous."""

    first: int
    last: int
    first_response: int
    last_response: int


def shares_of(reference_index: np.ndarray, references: int, threads: int) -> list[Share] | None:
    """Divide all references and responses into shares. reference_index: int64 (n,), each a valid index.

    None if there are few references, the responses are not in the order of their references, or too many of them point
    at few references: then it is better to read the references first.
    """
    rows = reference_index.shape[0]
    if references < MIN_REFERENCES or rows < references or (np.diff(reference_index) < 0).any():
        return None
    each = rows / references
    slices = slices_of(references, threads, max(1, round(MAX_ROWS / each)), max(1, round(MIN_ROWS / each)))
    bounds = np.searchsorted(reference_index, [first for first, _ in slices] + [references]).tolist()
    shares = [Share(*slice_, *bound) for slice_, bound in zip(slices, pairwise(bounds), strict=True)]
    if any(last - first > MAX_IMBALANCE * max(MIN_ROWS, each * (b - a)) for a, b, first, last in shares):
        return None
    return shares

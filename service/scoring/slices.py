"""Slices of the rows of a batch, on threads.

The calling thread takes slices too: a batch is done when its slices are, whether or not a helper thread ever ran.
Kernels release the GIL, and no row depends on another, so the results are the same for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

MIN_ROWS = 64  # of a slice: a third of a millisecond of work
MIN_REFERENCES = 64  # with fewer there is little to gain from shares
MAX_SHARE = 512  # responses of a share on average: about two milliseconds of work
MIN_SHARE = 128  # responses: smaller shares cost more than they balance
MAX_IMBALANCE = 2  # responses of a share relative to the average


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="assay-slice")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a child has none of its parent's threads


def fill_in_slices(fill: Callable[[int, int], None], rows: int, threads: int) -> None:
    fill_all(fill, slices_of(rows, threads), threads)


def fill_all(fill: Callable[..., None], slices: Sequence[tuple[int, ...]], threads: int) -> None:
    """Call `fill(*slice)` for each slice, on up to `threads` threads; once all have stopped, raises what it raised."""
    left = iter(slices)  # its `next` is atomic
    helpers = min(threads, len(slices)) - 1
    futures = [_helpers(threads - 1).submit(_drain, fill, left) for _ in range(helpers)]
    try:
        _drain(fill, left)
    finally:
        failures = [future.exception() for future in futures if not future.cancel()]
    try:
        for failure in failures:
            if failure is not None:
                raise failure
    finally:  # break the cycle of error and frame, which would keep the texts until the garbage collector runs
        del failures, futures
        failure = None


def slices_of(rows: int, threads: int, max_rows: int | None = None, min_rows: int = MIN_ROWS) -> list[tuple[int, int]]:
    """Divide `range(rows)` into few slices, the last ones short, so that threads end at about the same time.

    Each is half of a thread's share of the rest, from `min_rows` to `max_rows` rows; for one thread, `max_rows`.
    """
    slices = []
    first = 0
    while first < rows:
        size = rows - first if threads < 2 else max(min_rows, (rows - first) // (2 * threads))
        last = min(first + min(size, max_rows or rows), rows)
        slices.append((first, last))
        first = last
    return slices


def _drain(fill: Callable[..., None], slices: Iterator[tuple[int, ...]]) -> None:
    for slice_ in slices:
        fill(*slice_)


class ReferenceShare(NamedTuple):
    """The references [first, last) and the responses that point at them, which are contiguous."""

    first: int
    last: int
    first_response: int
    last_response: int


def shares_of(reference_index: np.ndarray, references: int, threads: int) -> list[ReferenceShare] | None:
    """Divide all references and responses into shares. reference_index: int64 (n,), each a valid index.

    None if there are few references, the responses are not in the order of their references, or too many of them point
    at few references: then it is better to read the references first.
    """
    rows = reference_index.shape[0]
    if references < MIN_REFERENCES or rows < references or (np.diff(reference_index) < 0).any():
        return None
    each = rows / references
    slices = slices_of(references, threads, max(1, round(MAX_SHARE / each)), max(1, round(MIN_SHARE / each)))
    bounds = np.searchsorted(reference_index, [first for first, _ in slices] + [references]).tolist()
    shares = [ReferenceShare(*slice_, *bound) for slice_, bound in zip(slices, pairwise(bounds), strict=True)]
    if any(last - first > MAX_IMBALANCE * max(MIN_SHARE, each * (b - a)) for a, b, first, last in shares):
        return None
    return shares

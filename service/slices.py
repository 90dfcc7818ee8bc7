"""All cores for one batch: its rows in slices that several threads take from one after another.

The calling thread takes slices too, and the others are only asked to help: a batch is done when its slices are, whether
or not a helper ever found the time. Kernels release the interpreter lock, and no row depends on another, so the
outcome is the same for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["fill_in_slices", "usable_cores"]

LEAST_ROWS = 64
"""Rows of the shortest slice: a third of a millisecond's work."""


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="assay-slice")


def fill_in_slices(fill: Callable[[int, int], None], rows: int, threads: int, slice_rows: int | None = None) -> None:
    """Call `fill(first, last)` for slices that cover `range(rows)`, on up to `threads` threads; raises what it raises.

    slice_rows: rows a slice; None for as few slices as let the threads end at about the same time.
    """
    cuts = shrinking_cuts(rows, threads) if slice_rows is None else even_cuts(rows, slice_rows)
    left = iter(cuts)  # its `next` is atomic
    helpers = min(threads, len(cuts)) - 1
    futures = [_helpers(threads - 1).submit(_drain, fill, left) for _ in range(helpers)]
    try:
        _drain(fill, left)
    finally:
        for future in futures:
            if not future.cancel():
                future.result()


def even_cuts(rows: int, slice_rows: int) -> list[tuple[int, int]]:
    return [(first, min(first + slice_rows, rows)) for first in range(0, rows, slice_rows)]


def shrinking_cuts(rows: int, threads: int) -> list[tuple[int, int]]:
    """Each slice is half of a thread's share of what is left, down to `LEAST_ROWS`; all of it for one thread."""
    cuts = []
    first = 0
    while first < rows:
        size = rows if threads < 2 else max(LEAST_ROWS, (rows - first) // (2 * threads))
        cuts.append((first, min(first + size, rows)))
        first += size
    return cuts


def _drain(fill: Callable[[int, int], None], cuts: Iterator[tuple[int, int]]) -> None:
    for first, last in cuts:
        fill(first, last)

"""All cores for one batch: its rows in slices that several threads take from one after another.

The calling thread takes slices too, and the others are only asked to help: a batch is done when its slices are, whether
or not a helper ever found the time. Kernels release the interpreter lock, and no row depends on another, so the
outcome is the same for any number of threads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

__all__ = ["fill_all", "fill_in_slices", "slices_of", "usable_cores"]

MIN_ROWS = 64
"""Rows of the shortest slice: a third of a millisecond's work."""


def usable_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _helpers(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="assay-slice")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.cache_clear)  # a child has none of its parent's threads


def fill_in_slices(fill: Callable[[int, int], None], rows: int, threads: int) -> None:
    """Call `fill(first, last)` for slices that cover `range(rows)`; threads, errors: see `fill_all`."""
    fill_all(fill, slices_of(rows, threads), threads)


def fill_all(fill: Callable[..., None], slices: Sequence[tuple[int, ...]], threads: int) -> None:
    """Call `fill(*slice)` for each slice, on up to `threads` threads; raises what it raises, once no thread fills."""
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
    finally:  # an error whose frame holds it would keep the texts until the collector runs
        del failures, futures
        failure = None


def slices_of(rows: int, threads: int, most: int | None = None, least: int = MIN_ROWS) -> list[tuple[int, int]]:
    """Few slices that cover `range(rows)`, of which the last are short, so that threads end at about the same time.

    Each is half of a thread's share of what is left, from `least` to `most` rows; for one thread, `most`.
    """
    slices = []
    first = 0
    while first < rows:
        size = rows - first if threads < 2 else max(least, (rows - first) // (2 * threads))
        last = min(first + min(size, most or rows), rows)
        slices.append((first, last))
        first = last
    return slices


def _drain(fill: Callable[..., None], slices: Iterator[tuple[int, ...]]) -> None:
    for cut in slices:
        fill(*cut)

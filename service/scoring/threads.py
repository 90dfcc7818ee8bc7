"""Threads that score slices of a batch, and the memory that each keeps.

The calling thread takes slices too: a batch is done when its slices are, whether or not a helper thread ever ran.
Kernels release the GIL, and no row depends on another, so the results are the same for any number of threads.

A thread records a size only after the allocation: kernels do not check bounds, and would write beyond memory that is
smaller than recorded. Memory for rare long texts is not kept.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.memory import Workspace, allocate_workspace
from ...kernels.reading.references import References, allocate

MIN_ROWS = 64  # of a slice: a third of a millisecond of work
MIN_REFERENCES = 64  # with fewer there is little to gain from shares
MAX_SHARE = 512  # responses of a share on average: about two milliseconds of work
MIN_SHARE = 128  # responses: smaller shares cost more than they balance
MAX_IMBALANCE = 2  # responses of a share relative to the average


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    slices = slices_of(references, threads, max(1, round(MAX_SHARE / each)), max(1, round(MIN_SHARE / each)))
    bounds = np.searchsorted(reference_index, [first for first, _ in slices] + [references]).tolist()
    shares = [Share(*slice_, *bound) for slice_, bound in zip(slices, pairwise(bounds), strict=True)]
    if any(last - first > MAX_IMBALANCE * max(MIN_SHARE, each * (b - a)) for a, b, first, last in shares):
        return None
    return shares


Memory = TypeVar("Memory")

MAX_KEPT_BYTES = 1 << 24
MAX_KEPT_ROOM = 1 << 21  # bytes of references whose memory a thread keeps: about five times as much
MAX_KEPT_TEXT = 1 << 18  # the default limit of responses and references
MAX_KEPT_WIDTH = 1 << 20  # no reference of MAX_KEPT_TEXT bytes is as wide


_local = threading.local()
"""This thread's memory by the name of its kind, with the sizes that it suffices for."""


def _borrow(kind: str, allocate: Callable[..., Memory], *sizes: int) -> Memory:
    """Return the memory of this kind, allocated again if it is too small: with each size at least the previous one."""
    memory, room = getattr(_local, kind, (None, (-1,) * len(sizes)))
    if any(size > held for size, held in zip(sizes, room, strict=True)):
        room = tuple(_rounded(max(pair)) for pair in zip(sizes, room, strict=True))
        memory = allocate(*room)
        setattr(_local, kind, (memory, room))
    return cast(Memory, memory)


def borrow_workspace(longest: int, widest_reference: int = 0) -> Workspace:
    if longest > MAX_KEPT_TEXT or widest_reference > MAX_KEPT_WIDTH:
        return allocate_workspace(longest, widest_reference)
    return _borrow("workspace", allocate_workspace, longest, widest_reference)


def borrow_workspace_for(texts: TextColumn, max_bytes: int, widest_reference: int) -> Workspace:
    lengths = texts.lengths
    readable = lengths[lengths <= max_bytes]
    return borrow_workspace(int(readable.max(initial=0)), widest_reference)


def borrow_bytes(nbytes: int) -> np.ndarray:
    """Return at least `nbytes` bytes, uint8, valid until this thread borrows bytes again."""
    if nbytes > MAX_KEPT_BYTES:
        return np.empty(nbytes, np.uint8)
    return _borrow("bytes", partial(np.empty, dtype=np.uint8), nbytes)


def borrow_room(column: TextColumn) -> References:
    """Return memory for the references of `column`, valid until this thread borrows it again."""
    nbytes = int(column.offsets[-1] - column.offsets[0])
    if nbytes > MAX_KEPT_ROOM:
        return allocate(nbytes, column.rows)
    references = _borrow("references", allocate, nbytes, column.rows)
    return references._replace(ranges=np.zeros((column.rows + 1, 6), np.int64))


def _rounded(size: int) -> int:
    return 1 << max(12, (size - 1).bit_length())


def _forget() -> None:
    """Release the parent's memory in a forked child, which would copy every page that it writes."""
    global _local
    _local = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

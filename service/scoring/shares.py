"""A batch in shares, which threads take in one call of a kernel for each thread (`kernels/batch.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...kernels.batch import (
    ALTERNATIVES,
    ENTRIES,
    INVALID,
    LAST_SHARE,
    LONGEST_REFERENCE,
    MAX_SHARES,
    NEXT_SHARE,
    NEXT_THREAD,
    SHARES,
    SIZES,
    STOPPED,
    BatchArrays,
    new_progress,
    plan_batch,
    score_batch,
)
from ...kernels.column import TextColumn, frozen
from ...kernels.compiler import entry
from ...kernels.reading.references import References, trim
from ...kernels.score import COMPONENTS, NO_ALTERNATIVES, StepEntries, allocate_entries, allocate_trials
from ...kernels.text.unicode import tables
from ...kernels.threads import MAX_THREADS
from ..errors import AssayError
from .memory import borrowed_memory
from .references import UNLIMITED, ReferenceTexts
from .stopping import check_finished, current_flag
from .texts import Texts, count_of, located

Validate = Callable[[TextColumn], None]
"""Raises an error unless the rows of a column are valid UTF-8 inside its data."""

SHARE_BYTES = 200_000
"""The bytes of a share, more than half a millisecond of work."""
MAX_SHARES_OF_CALL = 512
"""The shares of a call for each thread, about a second of work: Python handles signals between calls."""

NO_INDEX = frozen(np.zeros(0, np.int64), np.int64)
NO_CONFIGURATION = frozen(np.zeros((1, 23)), np.float64)


class Limits(NamedTuple):
    """The field `limits` of `BatchArrays`."""

    max_response_bytes: int
    max_reference_bytes: int
    max_reference_steps: int
    reads_quantities: bool = False

    def as_array(self, share_bytes: int = UNLIMITED) -> np.ndarray:
        return frozen(np.array([min(limit, UNLIMITED) for limit in (*self, share_bytes)], np.int64), np.int64)


class Outcome(NamedTuple):
    """What a kernel has written, see `BatchArrays`; no response has been scored if a status is not OK."""

    rewards: np.ndarray
    reasons: np.ndarray
    components: np.ndarray
    entries: StepEntries
    statuses: np.ndarray
    bad_lines: np.ndarray
    threads: int
    """The threads that have taken part."""


def run(
    responses: Texts,
    references: ReferenceTexts,
    reference_index: np.ndarray,
    limits: Limits,
    configurations: np.ndarray = NO_CONFIGURATION,
    threads: int = 1,
    validate: Validate | None = None,
    steps: bool = False,
    keep: Callable[[References], None] | None = None,
) -> Outcome:
    """Read references, and score responses if all are valid. reference_index: int64 (n,), each a valid index.

    validate: called with each column if one is not valid, for columns that may be invalid. keep: called with the parsed
    references, which are in one share and are overwritten afterwards. Raises Stopped, and MemoryError.
    """
    rows, texts = len(reference_index), count_of(references.texts)
    bounds = limits.as_array(UNLIMITED if keep else SHARE_BYTES)
    sources = located(responses, validate is None), located(references.texts, validate is None)
    alternatives = NO_ALTERNATIVES
    if references.alternatives is not None:
        alternatives = frozen(references.alternatives.offsets, np.int64)
    sizes = np.empty(SIZES, np.int64)
    shares = np.empty((min(2 * MAX_SHARES, rows + references.rows) + 1, 4), np.int64)
    order, starts = np.empty(rows, np.int64), np.empty(references.rows + 1, np.int64)
    index = frozen(reference_index, np.int64)
    inside = entry(plan_batch)(sizes, shares, order, starts, *sources, index, alternatives, bounds)
    number, threads = len(configurations), min(threads, max(int(sizes[SHARES]), 1), MAX_THREADS)
    results = Outcome(
        rewards=np.empty((number, rows)),
        reasons=np.empty((number, rows), np.uint8),
        components=np.empty((number, len(COMPONENTS), rows)),
        entries=allocate_entries(number, rows, int(sizes[ENTRIES])) if steps else allocate_entries(number, 0, 0),
        statuses=np.zeros(texts, np.uint8),
        bad_lines=np.zeros(texts, np.int64),
        threads=0,
    )
    progress = new_progress()
    progress[INVALID] = not inside
    maxima = sizes[: LONGEST_REFERENCE + 1].tolist()
    with borrowed_memory(threads, maxima) as (threads, memory):
        batch = BatchArrays(
            progress=progress,
            shares=frozen(shares, np.int64),
            order=order,
            responses=sources[0],
            references=sources[1],
            reference_index=index,
            alternatives=alternatives,
            limits=bounds,
            configurations=configurations,
            tables=tables(),
            statuses=results.statuses,
            bad_lines=results.bad_lines,
            rewards=results.rewards,
            reasons=results.reasons,
            components=results.components,
            entries=results.entries,
            memory=memory,
            trials=allocate_trials(threads, number, int(sizes[ALTERNATIVES])),
            stop_flag=current_flag(),
        )
        for first in range(0, int(sizes[SHARES]), MAX_SHARES_OF_CALL * threads):
            progress[NEXT_SHARE], progress[NEXT_THREAD] = first, 0
            progress[LAST_SHARE] = min(first + MAX_SHARES_OF_CALL * threads, int(sizes[SHARES]))
            if not entry(score_batch)(threads - 1, batch):
                raise AssayError("a kernel has failed")
        if keep is not None:
            keep(trim(References(*[column[0] for column in memory.references]), texts))
    check_finished(not progress[STOPPED])
    if progress[INVALID]:
        for column in (responses, references.texts):
            if validate is not None and isinstance(column, TextColumn):
                validate(column)
        raise AssayError("a column is not valid UTF-8")
    return results._replace(threads=int(progress[NEXT_THREAD]))


def read(
    references: ReferenceTexts, max_bytes: int, max_steps: int, quantities: bool = False
) -> tuple[References, np.ndarray, np.ndarray]:
    """Parse references; return them, read only, their statuses and their bad lines (see `Outcome`)."""
    parsed: list[References] = []
    limits = Limits(UNLIMITED, max_bytes, max_steps, quantities)
    outcome = run([], references, NO_INDEX, limits, keep=parsed.append)
    return parsed[0], outcome.statuses, outcome.bad_lines

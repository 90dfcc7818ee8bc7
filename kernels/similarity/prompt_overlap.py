"""Length of the longest suffix of one text that is a prefix of another: finds a response after a left-truncated prompt.

The automaton is Knuth, Morris and Pratt's (1977): `failures` is the failure function of the query's prefix, and
the state after the last byte of the prompt is the overlap. It makes at most two comparisons for each byte.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel

__all__ = ["overlaps"]


@helper
def begins_with(text, start, stop, other, other_start, other_stop):
    size = other_stop - other_start
    if stop - start < size:
        return False
    for k in range(size):
        if text[start + k] != other[other_start + k]:
            return False
    return True


@helper
def overlap(failures, prompts, prompt_start, prompt_stop, queries, query_start, query_stop):
    """Return the length of the longest suffix of one prompt that is a prefix of one query."""
    if begins_with(queries, query_start, query_stop, prompts, prompt_start, prompt_stop):
        return prompt_stop - prompt_start
    size = min(prompt_stop - prompt_start, query_stop - query_start)
    if size == 0:
        return np.int64(0)
    state = np.int64(0)
    failures[0] = 0
    for k in range(1, size):
        byte = queries[query_start + k]
        while state > 0 and byte != queries[query_start + state]:
            state = np.int64(failures[state - 1])
        if byte == queries[query_start + state]:
            state += 1
        failures[k] = state
    state = np.int64(0)
    for pos in range(prompt_stop - size, prompt_stop):
        byte = prompts[pos]
        while state > 0 and byte != queries[query_start + state]:
            state = np.int64(failures[state - 1])
        if byte == queries[query_start + state]:
            state += 1
    return state


@hot_kernel
def overlaps(lengths, failures, prompts, prompt_offsets, queries, query_offsets):
    """Compute for each row the length in bytes of the longest suffix of the prompt that is a prefix of the query.

    lengths: int64 (rows,), written. failures: int32 scratch, one for each byte of the shorter text of any row.
    prompts, queries: text columns.
    """
    for row in range(lengths.shape[0]):
        lengths[row] = overlap(
            failures,
            prompts,
            prompt_offsets[row],
            prompt_offsets[row + 1],
            queries,
            query_offsets[row],
            query_offsets[row + 1],
        )

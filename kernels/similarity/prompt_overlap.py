"""How much of the end of one text begins another: where a response starts behind a prompt that was cut on the left.

The automaton is that of Knuth, Morris and Pratt (1977): `failures` is their failure function of the query's beginning,
and the state after the last byte of the prompt is the overlap. Two comparisons a byte at most, whatever repeats itself.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, hot_kernel

__all__ = ["overlaps"]


@helper
def begins_with(text, start, stop, other, other_start, other_stop):
    """Whether `text[start:stop]` begins with `other[other_start:other_stop]`."""
    size = other_stop - other_start
    if stop - start < size:
        return False
    for k in range(size):
        if text[start + k] != other[other_start + k]:
            return False
    return True


@helper
def overlap(failures, prompts, prompt_start, prompt_stop, queries, query_start, query_stop):
    """Length of the longest end of one prompt that begins one query."""
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
    """For each row, the length in bytes of the longest end of the prompt that begins the query.

    lengths: int64 (rows,), written. failures: int32, scratch, one for each byte that the shorter text of a row has.
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

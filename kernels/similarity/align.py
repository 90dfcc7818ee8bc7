"""Greedy anchors (paper C.3): pairs of predicted and reference steps with the same action.

From left to right, a predicted action takes the earliest reference step after the last match that has the same action;
without such a step it stays unmatched and the position does not move.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, kernel

__all__ = ["UNMATCHED", "align", "anchors"]

UNMATCHED = -1


@helper
def align(partners, prediction, reference, first, following):
    """Match two int64 action sequences in linear time; returns |W|.

    partners: int64 (n,), written: index of the reference step or UNMATCHED. first: int64 scratch indexed by action,
    following: int64 scratch (m,); `first[s]` is the earliest step with action s that has not been passed.
    """
    n, m = prediction.shape[0], reference.shape[0]
    for i in range(n):
        first[prediction[i]] = UNMATCHED
    for j in range(m - 1, -1, -1):
        first[reference[j]] = UNMATCHED
    for j in range(m - 1, -1, -1):
        following[j] = first[reference[j]]
        first[reference[j]] = j
    last = -1
    matched = 0
    for i in range(n):
        j = first[prediction[i]]
        while j != UNMATCHED and j <= last:
            j = following[j]
        first[prediction[i]] = j
        partners[i] = j
        if j != UNMATCHED:
            last = j
            matched += 1
    return matched


@kernel
def anchors(partners, matched, prediction, prediction_offsets, reference, reference_offsets, symbols):
    """Compute the anchors of each pair of rows of two columns of action sequences.

    partners: int64, one for each predicted step, written: index in the reference's row or UNMATCHED.
    matched: int64 (rows,), written: |W|. prediction, reference: int64 actions in [0, symbols), with int64 offsets
    (rows + 1,).
    """
    first = np.empty(symbols, np.int64)
    following = np.empty(reference.shape[0], np.int64)
    for row in range(matched.shape[0]):
        start, stop = prediction_offsets[row], prediction_offsets[row + 1]
        actions = reference[reference_offsets[row] : reference_offsets[row + 1]]
        matched[row] = align(partners[start:stop], prediction[start:stop], actions, first, following)

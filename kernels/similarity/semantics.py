"""The step-semantics reward of a response against one reference.

Paper eq. 4 and 5, C.2, C.3; docs/rules.md, Step semantics.
"""

from __future__ import annotations

import numpy as np

from ..compiler.jit import helper, inlined
from ..memory.workspace import (
    ACTION,
    CANON,
    COUNTS,
    FIRST,
    FOLLOWING,
    HASHES,
    HEADS,
    IDS,
    IDS_USED,
    LENGTHS,
    MAPPED,
    OBJECT_START,
    OBJECT_STOP,
    OBJECT_WORDS,
    OBJECTS,
    OBJECTS_USED,
    PARAMETER_WORDS,
    PARTNERS,
    STAMP,
    STAMPS,
    STARTS,
    STRINGS_USED,
    WORD_STOP,
)
from ..reading.references import FREE, ID_AT, OBJECT_AT, STEP_AT, STRING_AT, find_string
from ..rules import MIN_OBJECT_SIMILARITY, PARAMETER_WEIGHT
from ..text.interning import PAIR, hash_pair, pair_of
from .align import UNMATCHED, align
from .exact_sum import add_exactly, rounded_sum
from .iou import iou
from .lcs import lcs_length
from .subsequence import either_is_subsequence

__all__ = ["align_with_reference", "content_reward", "differ_in_content", "order_reward"]


@helper
def match_strings(workspace, references, row):
    """Write to MAPPED, for each string in the workspace, its id in reference `row`; strings that the reference does not
    have get ids after its own. Returns the number of the reference's strings.

    The cost does not depend on the length of the reference.
    """
    ints = workspace.ints
    canon = workspace.bytes[CANON]
    reference_strings = references.ranges[row + 1, STRING_AT] - references.ranges[row, STRING_AT]
    for k in range(ints[COUNTS, STRINGS_USED]):
        head, length, digest = ints[HEADS, k], ints[LENGTHS, k], ints[HASHES, k]
        string = np.int64(FREE)
        if length == PAIR:
            first, second = ints[MAPPED, head >> 32], ints[MAPPED, head & 0xFFFFFFFF]
            if first < reference_strings and second < reference_strings:
                head = pair_of(first, second)
                string = find_string(references, row, canon, np.int64(0), length, head, hash_pair(head, workspace.seed))
        else:
            string = find_string(references, row, canon, ints[STARTS, k], length, head, digest)
        ints[MAPPED, k] = string if string != FREE else reference_strings + k
    return reference_strings


@helper
def renumber_with_reference(workspace, references, row, n):
    """Renumber the strings of the n key steps with the ids of reference `row`.

    Rewrites ACTION, IDS and OBJECTS. Returns the last id + 1.
    """
    ints = workspace.ints
    reference_strings = match_strings(workspace, references, row)
    for k in range(ints[COUNTS, IDS_USED]):
        ints[IDS, k] = ints[MAPPED, ints[IDS, k]]
    for k in range(ints[COUNTS, OBJECTS_USED]):
        ints[OBJECTS, k] = ints[MAPPED, ints[OBJECTS, k]]
    for k in range(n):
        ints[ACTION, k] = ints[MAPPED, ints[ACTION, k]]
    return reference_strings + ints[COUNTS, STRINGS_USED]


@inlined
def next_stamp(ints):
    """Return a fresh stamp; neither it nor the next one occurs in STAMPS."""
    ints[COUNTS, STAMP] += 2
    return ints[COUNTS, STAMP]


@inlined
def object_similarity(ints, i, references, first_object, first_id, j, rules):
    """Return Obj(i, j): IoU of the objects, or of their words if it is 0 and both steps have objects (the paper's
    compensation), or the larger of the two (`max`).

    i is a step of the response, j a row of `references.steps`; the reference's objects and ids begin at first_….
    """
    reference_steps = references.steps
    a = ints[OBJECTS, ints[OBJECT_START, i] : ints[OBJECT_STOP, i]]
    b = references.objects[
        first_object + reference_steps[OBJECT_START, j] : first_object + reference_steps[OBJECT_STOP, j]
    ]
    similarity = iou(a, b, ints[STAMPS], next_stamp(ints))
    if similarity == 1.0 or a.shape[0] == 0 or b.shape[0] == 0:
        return similarity
    if similarity > 0.0 and not rules.max_object_similarity:
        return similarity
    a = ints[IDS, ints[OBJECT_WORDS, i] : ints[PARAMETER_WORDS, i]]
    b = references.ids[first_id + reference_steps[OBJECT_WORDS, j] : first_id + reference_steps[PARAMETER_WORDS, j]]
    return max(similarity, iou(a, b, ints[STAMPS], next_stamp(ints)))


@inlined
def parameter_similarity(ints, i, references, first_id, j):
    """Return Par(i, j): IoU of the words of all parameters; 1 if neither step has any, 0 if only one has."""
    reference_steps = references.steps
    a = ints[IDS, ints[PARAMETER_WORDS, i] : ints[WORD_STOP, i]]
    b = references.ids[first_id + reference_steps[PARAMETER_WORDS, j] : first_id + reference_steps[WORD_STOP, j]]
    return iou(a, b, ints[STAMPS], next_stamp(ints))


@inlined
def position_factor(i, j, m, decay):
    """Return m_ij = max(0, 1 − (|i − j| / m)^λ), λ = `decay`."""
    distance = abs(i - j)
    if distance == 0:
        return 1.0  # most anchors; a power costs as much as everything else
    if distance >= m:
        return 0.0
    return max(0.0, 1.0 - (distance / m) ** decay)


@helper
def sum_over_anchors(ints, references, row, n, m, rules):
    """Return Σ m_ij (Obj + ½ Par) over the anchors in PARTNERS, rounded once."""
    ranges = references.ranges
    first_step, first_id, first_object = ranges[row, STEP_AT], ranges[row, ID_AT], ranges[row, OBJECT_AT]
    partials = ints[FOLLOWING].view(np.float64)
    count = 0
    for i in range(n):
        j = ints[PARTNERS, i]
        if j == UNMATCHED:
            continue
        similarity = object_similarity(ints, i, references, first_object, first_id, first_step + j, rules)
        if similarity >= MIN_OBJECT_SIMILARITY:
            similarity += PARAMETER_WEIGHT * parameter_similarity(ints, i, references, first_id, first_step + j)
        if rules.use_position:
            similarity *= position_factor(i, j, m, rules.position_decay)
        count = add_exactly(partials, count, similarity)
    return rounded_sum(partials, count)


@helper
def align_with_reference(workspace, references, row, n):
    """Renumber the n steps in the workspace with the ids of reference `row`, and write their anchors to PARTNERS.

    Only once for each response. Returns (m, last id + 1, |W|).
    """
    ints = workspace.ints
    symbols = renumber_with_reference(workspace, references, row, n)
    first_step, stop = references.ranges[row, STEP_AT], references.ranges[row + 1, STEP_AT]
    expected = references.steps[ACTION, first_step:stop]
    matched = align(ints[PARTNERS, :n], ints[ACTION, :n], expected, ints[FIRST], ints[FOLLOWING])
    return stop - first_step, symbols, np.int64(matched)


@helper
def order_reward(ints, references, row, n, m, symbols, rules):
    """Return the order reward: LCS / m (`lcs`), or whether one action sequence is a subsequence of the other.

    After `align_with_reference`, like `content_reward`: neither changes what the other reads.
    """
    first_step = references.ranges[row, STEP_AT]
    predicted, expected = ints[ACTION, :n], references.steps[ACTION, first_step : first_step + m]
    if rules.lcs_order:
        return lcs_length(predicted, expected, symbols) / m
    return 1.0 if either_is_subsequence(predicted, expected) else 0.0


@helper
def content_reward(ints, references, row, n, m, matched, rules):
    """Return (1 / |W|) Σ m_ij (Obj + ½ Par), or the sum over max(n, m) (`max_len`); 0 without anchors."""
    if matched == 0:
        return 0.0
    total = sum_over_anchors(ints, references, row, n, m, rules)
    return total / (max(n, m) if rules.max_len_content else matched)


@inlined
def differ_in_content(a, b):
    """Return whether two configurations may give different contents."""
    return (
        a.max_object_similarity != b.max_object_similarity
        or a.use_position != b.use_position
        or a.position_decay != b.position_decay
        or a.max_len_content != b.max_len_content
    )

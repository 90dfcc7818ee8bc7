"""The evaluation metrics of Appendix F, profile `paper` (docs/rules.md, Evaluation metrics), for a slice of a batch.

Parsing, words, anchors and similarities are the reward's, without its gates: step numbers and prose are ignored.
"""

from __future__ import annotations

import numpy as np

from .compiler import helper, hot_kernel
from .memory import ACTION, FIRST, FOLLOWING, MAPPED, MAPPED_ACTION, PARTNERS, SPAN_STARTS
from .reading.references import ID_AT, OBJECT_AT, STEP_AT
from .reading.response import FOUND, NOT_OPENED, find_sections
from .reading.steps import read_key_steps
from .rules import (
    KEY_NUMBERING,
    MIN_OBJECT_SIMILARITY,
    MISSING_SECTIONS,
    OK,
    PARAMETER_WEIGHT,
    THINK_NOT_OPENED,
    TOO_LONG,
)
from .semantics import (
    UNMATCHED,
    add_exactly,
    align,
    match_strings,
    object_similarity,
    parameter_similarity,
    position_factor,
    renumber_with_reference,
    rounded_sum,
)
from .sequences import is_subsequence, lcs_length
from .text.interning import reset
from .text.lines import has_more_lines

MEASURES = (
    "step_m",
    "order_s",
    "order_lcs",
    "order_tau",
    "semantic_a",
    "mean_obj",
    "mean_par",
    "mean_position",
    "steps",
    "outside_library",
    "distractors",
)
"""Rows of `measures`, in this order. The last three are counts of predicted steps: all of them, those whose action is
not in the library, and those whose action is in the library but not in the reference.
"""

STEP_M, ORDER_S, ORDER_LCS, ORDER_TAU, SEMANTIC_A, MEAN_OBJ, MEAN_PAR, MEAN_POSITION, STEPS, OUTSIDE, DISTRACTORS = (
    range(11)
)
NO_LIBRARY = -1
WORDS_ONLY = np.bool_(False)


@helper
def read_steps(workspace, tables, text, start, stop, rules):
    """Read the key steps of the response `text[start:stop]` into the workspace: (status, number of steps).

    The number is 0 unless the status is OK.
    """
    none = np.int64(0)
    if stop - start > rules.max_response_bytes:
        return TOO_LONG, none
    outcome, key_start, key_stop, _, _ = find_sections(text, start, stop, rules.think_prefilled)
    if outcome != FOUND:
        return (THINK_NOT_OPENED if outcome == NOT_OPENED else MISSING_SECTIONS), none
    if has_more_lines(text, key_start, key_stop, rules.max_steps):
        return TOO_LONG, none
    reset(workspace)
    status, steps, _ = read_key_steps(workspace, tables, text, key_start, key_stop, WORDS_ONLY)
    if status == KEY_NUMBERING:
        status = OK
    return status, (steps if status == OK else none)


@helper
def mark_library(workspace, libraries, row, n):
    """Write to PARTNERS, for each of the n steps in the workspace, 1 if its action is in library `row`, else 0.

    Call it before `renumber_with_reference`. Returns the number of steps whose action is not in the library.
    """
    ints = workspace.ints
    library_strings = match_strings(workspace, libraries, row)
    for i in range(n):
        string = ints[MAPPED, ints[ACTION, i]]
        ints[PARTNERS, i] = string
        ints[FIRST, string] = 0
    for j in range(libraries.ranges[row, STEP_AT], libraries.ranges[row + 1, STEP_AT]):
        ints[FIRST, libraries.steps[ACTION, j]] = 1
    outside = 0
    for i in range(n):
        string = ints[PARTNERS, i]
        ints[PARTNERS, i] = 1 if string < library_strings and ints[FIRST, string] == 1 else 0
        outside += 1 - ints[PARTNERS, i]
    return outside


@helper
def count_distractors(ints, expected, n):
    """Count the steps, of n, whose action is in the library (marked in PARTNERS) but not in `expected`."""
    for i in range(n):
        ints[FIRST, ints[MAPPED_ACTION, i]] = 0
    for j in range(expected.shape[0]):
        ints[FIRST, expected[j]] = 1
    count = 0
    for i in range(n):
        count += ints[PARTNERS, i] == 1 and ints[FIRST, ints[MAPPED_ACTION, i]] == 0
    return count


@helper
def measure_anchors(measures, row, ints, references, reference, n, m, matched, rules):
    """Compute Semantic-A and the means of Obj, Par and m over the anchors in PARTNERS, from exact sums."""
    ranges = references.ranges
    first_step, first_id, first_object = (
        ranges[reference, STEP_AT],
        ranges[reference, ID_AT],
        ranges[reference, OBJECT_AT],
    )
    contents, objs = ints[FIRST].view(np.float64), ints[FOLLOWING].view(np.float64)
    pars, places = ints[MAPPED].view(np.float64), ints[SPAN_STARTS].view(np.float64)
    n_contents = n_objs = n_pars = n_places = 0
    for i in range(n):
        j = ints[PARTNERS, i]
        if j == UNMATCHED:
            continue
        objects = object_similarity(ints, i, references, first_object, first_id, first_step + j, rules)
        parameters = 0.0
        if objects >= MIN_OBJECT_SIMILARITY:
            parameters = parameter_similarity(ints, i, references, first_id, first_step + j, WORDS_ONLY)
        position = position_factor(i, j, m, rules.position_decay)
        n_contents = add_exactly(contents, n_contents, (objects + PARAMETER_WEIGHT * parameters) * position)
        n_objs = add_exactly(objs, n_objs, objects)
        n_pars = add_exactly(pars, n_pars, parameters)
        n_places = add_exactly(places, n_places, position)
    measures[SEMANTIC_A, row] = rounded_sum(contents, n_contents) / matched
    measures[MEAN_OBJ, row] = rounded_sum(objs, n_objs) / matched
    measures[MEAN_PAR, row] = rounded_sum(pars, n_pars) / matched
    measures[MEAN_POSITION, row] = rounded_sum(places, n_places) / matched


@hot_kernel
def measure_protocols(
    statuses,
    measures,
    first,
    last,
    data,
    offsets,
    reference_index,
    references,
    library_index,
    libraries,
    rules,
    tables,
    workspace,
):
    """Measure the responses [first, last) of a batch of n; other rows of the outputs are unchanged.

    statuses: uint8 (n,), written: OK, or why the response has no steps. measures: float64 (11, n), written, rows as in
    MEASURES, all 0 if the response has no steps. data, offsets: the responses as a text column. reference_index,
    library_index: int64 (n,) rows of `references` and `libraries`; a library holds the actions of its steps, and −1
    means no library (then its counts are 0). workspace: large enough for the longest response within the limit
    and the widest of references and libraries.
    """
    ints = workspace.ints
    for row in range(first, last):
        for measure in range(measures.shape[0]):
            measures[measure, row] = 0.0
        status, n = read_steps(workspace, tables, data, offsets[row], offsets[row + 1], rules)
        statuses[row] = status
        if status != OK:
            continue
        measures[STEPS, row] = n
        library = library_index[row]
        if library != NO_LIBRARY:
            measures[OUTSIDE, row] = mark_library(workspace, libraries, library, n)
        reference = reference_index[row]
        first_step = references.ranges[reference, STEP_AT]
        m = references.ranges[reference + 1, STEP_AT] - first_step
        symbols = renumber_with_reference(workspace, references, reference, n)
        predicted = ints[MAPPED_ACTION, :n]
        expected = references.steps[ACTION, first_step : first_step + m]
        if library != NO_LIBRARY:
            measures[DISTRACTORS, row] = count_distractors(ints, expected, n)
        measures[STEP_M, row] = 1.0 if n == m else 0.0
        measures[ORDER_S, row] = 1.0 if n == m and is_subsequence(predicted, expected) else 0.0
        measures[ORDER_LCS, row] = 2.0 * lcs_length(predicted, expected, symbols) / (n + m)
        matched = align(ints[PARTNERS, :n], predicted, expected, ints[FIRST], ints[FOLLOWING])
        measures[ORDER_TAU, row] = 1.0 if matched >= 2 else 0.0
        if matched:
            measure_anchors(measures, row, ints, references, reference, n, m, matched, rules)

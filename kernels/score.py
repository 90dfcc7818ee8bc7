"""SCORE of a slice of a batch: gates, step scale, step semantics, reward (docs/rules.md, Gates to Score and reward)."""

from __future__ import annotations

from .compiler.jit import helper, hot_kernel
from .reading.references import STEP_AT
from .reading.response import passes_format_gate, read_response
from .rules import DOUBLE, SHIFT, UNIT
from .similarity.scale import length_penalty, step_gap
from .similarity.semantics import measure_semantics
from .status import OK

__all__ = ["COMPONENTS", "score_slice"]

COMPONENTS = (
    "format",
    "consistency",
    "coverage",
    "step_gap",
    "mean_words",
    "scale",
    "order",
    "content",
    "semantics",
    "anchors",
    "score",
)
"""Rows of `components`, in this order."""

FORMAT, CONSISTENCY, COVERAGE, STEP_GAP, MEAN_WORDS, SCALE, ORDER, CONTENT, SEMANTICS, ANCHORS, SCORE = range(11)


@helper
def reward_of(score, rules):
    """Map SCORE to the reward (paper Table 22)."""
    if rules.reward_scale == UNIT:
        return score / rules.largest_score
    if rules.reward_scale == DOUBLE:
        return 2.0 * score
    if rules.reward_scale == SHIFT:
        return score - rules.largest_score / 2.0
    return score


@helper
def combine(measures, row, rules):
    """Fill in scale, semantics and score of `row` from the other components."""
    scale = measures[STEP_GAP, row] if rules.use_step_gap else 1.0
    if rules.use_length:
        scale /= length_penalty(measures[MEAN_WORDS, row], rules)
    semantics = measures[CONTENT, row]
    if rules.use_order:
        order = measures[ORDER, row]
        semantics = order * semantics if rules.product_semantics else order + semantics
    measures[SCALE, row] = scale
    measures[SEMANTICS, row] = semantics
    measures[SCORE, row] = scale + semantics if rules.sum_total else scale * semantics


@hot_kernel
def score_slice(
    rewards, reasons, components, first, last, data, offsets, reference_index, references, rules, tables, workspace
):
    """Score the responses [first, last) of a batch of n; other rows of the outputs are unchanged.

    rewards: float64 (n,), reasons: uint8 (n,), components: float64 (11, n), all written; rows of `components` as in
    COMPONENTS, 0 after a failed gate. data, offsets: the responses as a text column. reference_index: int64 (n,) rows
    of `references`, checked by the caller. workspace: large enough for the longest response within the limit and the
    widest reference.
    """
    for row in range(first, last):
        for component in range(components.shape[0]):
            components[component, row] = 0.0
        status, n, mean_words, coverage = read_response(workspace, tables, data, offsets[row], offsets[row + 1], rules)
        reasons[row] = status
        components[FORMAT, row] = 1.0 if passes_format_gate(status) else 0.0
        components[COVERAGE, row] = coverage
        if status == OK:
            reference = reference_index[row]
            m = references.ranges[reference + 1, STEP_AT] - references.ranges[reference, STEP_AT]
            order, content, anchors = measure_semantics(workspace, references, reference, n, rules)
            components[CONSISTENCY, row] = 1.0
            components[STEP_GAP, row] = step_gap(n, m)
            components[MEAN_WORDS, row] = mean_words
            components[ORDER, row] = order
            components[CONTENT, row] = content
            components[ANCHORS, row] = anchors
            combine(components, row, rules)
        rewards[row] = reward_of(components[SCORE, row], rules)

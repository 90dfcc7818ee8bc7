"""SCORE of a slice of a batch under one or several configurations: gates, step scale, step semantics, reward
(docs/rules.md, Gates to Score and reward).
"""

from __future__ import annotations

import numpy as np

from .compiler.jit import helper, hot_kernel, inlined
from .reading.response import passes_format_gate, read_response
from .rules import DOUBLE, SHIFT, UNIT, Rules
from .similarity.scale import length_penalty, step_gap
from .similarity.semantics import align_with_reference, content_reward, differ_in_content, order_reward
from .status import LOW_COVERAGE, OK

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


@inlined
def rules_at(configurations, k):
    """Return configuration `k` of `configurations`, float64 (k, 18): the fields of `Rules` as numbers."""
    values = configurations[k]
    return Rules(
        lcs_order=values[0] != 0.0,
        product_semantics=values[1] != 0.0,
        sum_total=values[2] != 0.0,
        max_len_content=values[3] != 0.0,
        relative_length=values[4] != 0.0,
        reward_scale=int(values[5]),
        largest_score=values[6],
        min_coverage=values[7],
        max_mean_words=values[8],
        max_object_similarity=values[9] != 0.0,
        position_decay=values[10],
        use_step_gap=values[11] != 0.0,
        use_length=values[12] != 0.0,
        use_position=values[13] != 0.0,
        use_order=values[14] != 0.0,
        think_prefilled=values[15] != 0.0,
        max_response_bytes=int(values[16]),
        max_steps=int(values[17]),
    )


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
    rewards,
    reasons,
    components,
    first,
    last,
    data,
    offsets,
    reference_index,
    references,
    configurations,
    tables,
    workspace,
):
    """Score the responses [first, last) of a batch of n under k configurations; other rows are unchanged.

    rewards: float64 (k, n), reasons: uint8 (k, n), components: float64 (k, 11, n), all written; columns of `components`
    as in COMPONENTS, 0 after a failed gate. data, offsets: the responses as a text column. reference_index: int64 (n,)
    rows of `references`, checked by the caller. configurations: float64 (k, 18), rows as `rules_at` takes them, which
    agree in `think_prefilled` and the limits, so that each response is read once. Content and order are measured again
    where they may differ from the row before. workspace: large enough for the longest response within the
    limit and the widest reference.
    """
    reading = rules_at(configurations, 0)
    for row in range(first, last):
        status, n, mean_words, coverage = read_response(
            workspace, tables, data, offsets[row], offsets[row + 1], reading
        )
        reference = reference_index[row]
        m = symbols = matched = np.int64(0)
        order = content = 0.0
        aligned, before = False, reading
        for k in range(configurations.shape[0]):
            rules, measures = rules_at(configurations, k), components[k]
            reason = LOW_COVERAGE if status == OK and coverage < rules.min_coverage else status
            for component in range(measures.shape[0]):
                measures[component, row] = 0.0
            measures[FORMAT, row] = 1.0 if passes_format_gate(reason) else 0.0
            measures[COVERAGE, row] = coverage
            if reason == OK:
                if not aligned:
                    m, symbols, matched = align_with_reference(workspace, references, reference, n)
                if not aligned or rules.lcs_order != before.lcs_order:
                    order = order_reward(workspace.ints, references, reference, n, m, symbols, rules)
                if not aligned or differ_in_content(rules, before):
                    content = content_reward(workspace.ints, references, reference, n, m, matched, rules)
                aligned, before = True, rules
                measures[CONSISTENCY, row] = 1.0
                measures[STEP_GAP, row] = step_gap(n, m)
                measures[MEAN_WORDS, row] = mean_words
                measures[ORDER, row] = order
                measures[CONTENT, row] = content
                measures[ANCHORS, row] = matched
                combine(measures, row, rules)
            reasons[k, row] = reason
            rewards[k, row] = reward_of(measures[SCORE, row], rules)

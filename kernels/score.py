"""Rewards of a slice of responses, and of a short request in one call.

Anything that `FastPathRequest` does not handle, valid or not, falls back to the general path, which gives the same
answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler import entry, helper, hot_kernel, inlined
from .json_columns import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_envelope
from .memory import Workspace, allocate_workspace
from .reading.references import (
    FIRST_FREE_ROW,
    References,
    ReferenceSlots,
    allocate_with_slots,
    empty_slots,
    fill_slot,
    holds_reference,
    invalidate,
    read_references,
    slot_row,
)
from .reading.response import passes_format_gate, read_response
from .rules import DOUBLE, LOW_COVERAGE, OK, SHIFT, UNIT, Rules
from .semantics import align_with_reference, content_reward, differ_in_content, length_penalty, order_reward, step_gap

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


USE_GENERAL_PATH = -1
"""Result for every request that the fast path does not handle, valid or not."""

INCLUDE = FIELDS.index("include")


class EnvelopeArrays(NamedTuple):
    """The arrays that `read_request` writes, and read-only views of them, because kernels have one signature."""

    fields: np.ndarray  # int64 (8, 3), see `json_columns.py`
    unknown: np.ndarray  # int64 (2, 2)
    texts: np.ndarray  # uint8 (2, n)
    offsets: np.ndarray  # int64 (2, rows + 1)
    kinds: np.ndarray  # uint8 (2, rows)
    scratch: np.ndarray  # uint8 (n,)
    chosen: np.ndarray  # int64 (rows,): the reference of each response
    reference_rows: np.ndarray  # int64 (rows,): its row in `FastPathRequest.references`
    slots: ReferenceSlots
    seed: np.uint64
    reference_text: np.ndarray  # uint8 (n,): row of `texts`, read only, like `reference_offsets`
    reference_offsets: np.ndarray  # int64 (rows + 1,): row of `offsets`


class FastPathRequest(NamedTuple):
    """The memory of one request at a time."""

    envelope: EnvelopeArrays
    rewards: np.ndarray  # float64 (1, rows): of one configuration, like the two below
    reasons: np.ndarray  # uint8 (1, rows)
    components: np.ndarray  # float64 (1, 11, rows)
    response_text: np.ndarray  # uint8 (n,): row of `EnvelopeArrays.texts`, read only, like all below
    response_offsets: np.ndarray  # int64 (rows + 1,): row of `EnvelopeArrays.offsets`
    reference_index: np.ndarray  # int64 (rows,): `EnvelopeArrays.chosen`
    reference_rows: np.ndarray  # int64 (rows,): `EnvelopeArrays.reference_rows`
    parsed: References  # `references`
    references: References  # writable
    workspace: Workspace


def new_request(max_bytes: int, rows: int) -> FastPathRequest:
    """Allocate memory for bodies of up to `max_bytes`, with up to `rows` responses and as many references."""
    texts = np.empty((2, 5 * max_bytes + 64), np.uint8)
    offsets = np.zeros((2, rows + 1), np.int64)
    chosen, reference_rows = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    references = allocate_with_slots(5 * max_bytes, rows)
    workspace = allocate_workspace(5 * max_bytes, 2 * 5 * max_bytes)
    envelope = EnvelopeArrays(
        fields=np.zeros((len(FIELDS), 3), np.int64),
        unknown=np.zeros((2, 2), np.int64),
        texts=texts,
        offsets=offsets,
        kinds=np.zeros((2, rows), np.uint8),
        scratch=np.empty(max_bytes + 64, np.uint8),
        chosen=chosen,
        reference_rows=reference_rows,
        slots=empty_slots(),
        seed=workspace.seed,
        reference_text=frozen(texts[REFERENCES], np.uint8),
        reference_offsets=frozen(offsets[REFERENCES], np.int64),
    )
    return FastPathRequest(
        envelope=envelope,
        rewards=np.zeros((1, rows)),
        reasons=np.zeros((1, rows), np.uint8),
        components=np.zeros((1, len(COMPONENTS), rows)),
        response_text=frozen(texts[RESPONSES], np.uint8),
        response_offsets=frozen(offsets[RESPONSES], np.int64),
        reference_index=frozen(chosen, np.int64),
        reference_rows=frozen(reference_rows, np.int64),
        parsed=References(*(frozen(column, column.dtype.type) for column in references)),
        references=references,
        workspace=workspace,
    )


@helper
def locate_references(request, expected, rows, max_steps):
    """Choose the row of each response's reference; returns the number of references that have to be read."""
    unread = expected
    first = np.int64(FIRST_FREE_ROW)
    if expected == 1:
        text, start, length = request.reference_text, request.reference_offsets[0], request.reference_offsets[1]
        first = slot_row(text, start, length, request.seed)
        if holds_reference(request.slots, first, text, start, length, max_steps):
            unread = np.int64(0)
        else:
            invalidate(request.slots, first)
    for k in range(rows):
        request.chosen[k] = k if expected == rows else 0
        request.reference_rows[k] = first + request.chosen[k]
    return unread


@hot_kernel
def read_request(request, body, max_reference_bytes, max_steps):
    """Read the request in `body` (uint8, read only): (number of responses or USE_GENERAL_PATH, unread references).

    request: the arrays of the envelope. Handles valid JSON of references, responses and optionally `include`, with one
    reference or one for each response. `read_missing` has to read the unread references before scoring.
    """
    fields = request.fields
    outcome = read_envelope(
        fields,
        request.unknown,
        request.texts,
        request.offsets,
        request.kinds,
        request.scratch,
        body,
        max_reference_bytes,
    )
    none = np.int64(0)
    if outcome != READ or request.unknown[0, 0] != 0:
        return USE_GENERAL_PATH, none
    if fields[REFERENCES, SECOND] + fields[RESPONSES, SECOND] != 0:
        return USE_GENERAL_PATH, none
    for field in range(RESPONSES + 1, fields.shape[0]):
        if fields[field, STATE] == VALUE and field != INCLUDE:
            return USE_GENERAL_PATH, none
    rows, expected = fields[RESPONSES, FIRST], fields[REFERENCES, FIRST]
    if rows == 0 or (expected != 1 and expected != rows):
        return USE_GENERAL_PATH, none
    for k in range(expected):
        if request.offsets[REFERENCES, k + 1] - request.offsets[REFERENCES, k] > max_reference_bytes:
            return USE_GENERAL_PATH, none
    return rows, locate_references(request, expected, rows, max_steps)


def read_missing(request: FastPathRequest, unread: int, max_steps: int, tables: np.ndarray) -> bool:
    """Read the `unread` references of the request into their rows; return False if one of them is invalid."""
    envelope = request.envelope
    first = int(envelope.reference_rows[0])
    room = request.references._replace(ranges=request.references.ranges[first : first + unread + 1])
    offsets = envelope.reference_offsets[: unread + 1]
    statuses, bad_lines = request.reasons[0, :unread], np.empty(unread, np.int64)
    text, workspace = envelope.reference_text, request.workspace
    entry(read_references)(statuses, bad_lines, room, text, offsets, max_steps, tables, workspace)
    if statuses.any():
        return False
    if unread == 1:
        fill_slot(envelope.slots, first, text, int(offsets[1]), max_steps)
    return True

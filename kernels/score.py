"""Rewards of a slice of responses, and of a short request in one call.

Anything that `FastPathRequest` does not handle, valid or not, falls back to the general path, which gives the same
answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler import entry, helper, hot_kernel, inlined
from .json_columns import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_members
from .memory import (
    COVERAGES,
    KEY_STARTS,
    NEVER,
    PARTNERS,
    VALUES,
    Workspace,
    allocate_workspace,
    bits_set,
    continuation_bits,
)
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
from .rules import ADDED_NUMBERS, DOUBLE, LOW_COVERAGE, OK, SHIFT, UNIT, Rules
from .semantics import (
    UNMATCHED,
    align_with_reference,
    content_reward,
    differ_in_position,
    differ_in_similarity,
    lcs_order,
    length_penalty,
    measure_similarities,
    step_gap,
    strict_order,
    sum_over_anchors,
)

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
    """Return configuration `k` of `configurations`, float64 (k, 20): the fields of `Rules` as numbers."""
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
        quantities=values[10] != 0.0,
        max_added_numbers=int(values[11]),
        position_decay=values[12],
        use_step_gap=values[13] != 0.0,
        use_length=values[14] != 0.0,
        use_position=values[15] != 0.0,
        use_order=values[16] != 0.0,
        think_prefilled=values[17] != 0.0,
        max_response_bytes=int(values[18]),
        max_steps=int(values[19]),
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


MIN_STEP_BYTES = 56
"""Bytes of the shortest step in `<key>` and `<orc>`: a response has at most one entry for each as many bytes."""

TIE = 1e-9
"""Rewards of alternatives that differ by no more are equal (docs/rules.md, Alternatives)."""

BLOCK = 64
NO_ALTERNATIVES = frozen(np.zeros(0, np.int64), np.int64)


class StepEntries(NamedTuple):
    """An entry for each step of a slice of r responses under k configurations; all empty if they are not wanted."""

    counts: np.ndarray  # int64 (r,): entries of each response, side by side in the columns below
    spans: np.ndarray  # int64 (4, e): start and end of the key line and of the orc step, in code points of the response
    coverages: np.ndarray  # float64 (e,)
    references: np.ndarray  # int64 (k, e): step of the reference from 0, or UNMATCHED
    values: np.ndarray  # float64 (k, e)
    alternatives: np.ndarray  # int64 (k, r): the alternative that counted, from 0


def allocate_entries(configurations: int, rows: int, nbytes: int) -> StepEntries:
    """Allocate the entries of `rows` responses of `nbytes` bytes together."""
    size = nbytes // MIN_STEP_BYTES + 1 if rows else 0
    return StepEntries(
        counts=np.zeros(rows, np.int64),
        spans=np.empty((4, size), np.int64),
        coverages=np.empty(size),
        references=np.empty((configurations, size), np.int64),
        values=np.empty((configurations, size)),
        alternatives=np.zeros((configurations, rows), np.int64),
    )


@helper
def count_code_points(text, start, stop):
    """Count the characters of the UTF-8 text `text[start:stop]`, 64 bytes at a time."""
    count = stop - start
    pos = start
    while stop - pos >= BLOCK:
        count -= bits_set(continuation_bits(text, pos))
        pos += BLOCK
    while pos < stop:
        count -= text[pos] & 0xC0 == 0x80
        pos += 1
    return count


@helper
def write_spans(entries, first, workspace, text, start, n):
    """Write spans and coverages of the n steps in the workspace, of a response that begins at `start`, from entry
    `first` on.
    """
    ints = workspace.ints
    coverages = ints[COVERAGES].view(np.float64)
    pos, characters = start, np.int64(0)
    for side in range(2):  # positions ascend within <key>, and within <orc> after it
        for i in range(n):
            for end in range(2):
                stop = ints[KEY_STARTS + 2 * side + end, i]
                characters += count_code_points(text, pos, stop)
                entries.spans[2 * side + end, first + i] = characters
                pos = stop
    for i in range(n):
        entries.coverages[first + i] = coverages[i]


@helper
def write_matches(entries, k, first, ints, n, passed):
    """Write the partners of the n steps in the workspace and their values under configuration `k`, from entry `first`
    on; without partners unless the response `passed` its gates.
    """
    values = ints[VALUES].view(np.float64)
    for i in range(n):
        matched = passed and ints[PARTNERS, i] != UNMATCHED
        entries.references[k, first + i] = ints[PARTNERS, i] if matched else UNMATCHED
        entries.values[k, first + i] = values[i] if matched else 0.0


@helper
def reads_quantities(configurations):
    """Return whether any configuration compares quantities."""
    quantities = False
    for k in range(configurations.shape[0]):
        quantities |= rules_at(configurations, k).quantities
    return quantities


@helper
def counts_added_numbers(configurations):
    """Return whether any configuration limits added numbers."""
    limited = False
    for k in range(configurations.shape[0]):
        limited |= rules_at(configurations, k).max_added_numbers >= 0
    return limited


@helper
def gate_reason(status, coverage, added, rules):
    """Return the reason of a response that was read with this status."""
    if status == OK and coverage < rules.min_coverage:
        return LOW_COVERAGE
    if status == OK and 0 <= rules.max_added_numbers < added:
        return ADDED_NUMBERS
    return status


CHOSEN = -1
"""Column of `trials` with the alternative that counts; the others hold the reward against each."""
NOT_MEASURED = -1.0


def allocate_trials(configurations: int, most: int) -> np.ndarray:
    """Allocate memory for the rewards of a response against up to `most` alternatives, float64 (k, most + 1)."""
    return np.zeros((configurations, most + 1))


@inlined
def choose_alternatives(trials, number):
    """Choose under each configuration the first of the alternatives with the largest reward."""
    last = trials.shape[1] + CHOSEN
    for k in range(trials.shape[0]):
        largest = trials[k, 0]
        for alternative in range(1, number):
            largest = max(largest, trials[k, alternative])
        chosen = 0
        while largest - trials[k, chosen] > TIE:
            chosen += 1
        trials[k, last] = chosen


@hot_kernel
def score_slice(
    rewards,
    reasons,
    components,
    entries,
    first,
    last,
    data,
    offsets,
    reference_index,
    references,
    alternatives,
    configurations,
    tables,
    workspace,
    trials,
    stop_flag,
):
    """Score the responses [first, last) of a batch of n under k configurations; other rows are unchanged.

    rewards: float64 (k, n), reasons: uint8 (k, n), components: float64 (k, 11, n), all written; columns of `components`
    as in COMPONENTS, 0 after a failed gate. entries: written, if it has room. data, offsets: the responses as a text
    column. reference_index: int64 (n,), the reference of each response, checked by the caller. alternatives: int64
    (R + 1,), where the alternatives of each reference begin in `references`; empty if each has only itself.
    configurations: float64 (k, 20), rows as `rules_at` takes them, which agree in `think_prefilled` and the limits, so
    that each response is read once. Similarities and sums are measured again where they may differ from the row before.
    workspace: large enough for the longest response within the limit and the widest reference. trials: from
    `allocate_trials`, with room for the alternatives of any reference. stop_flag: int64 (1,); False is returned, with
    rows left, once it is not 0.

    Of several alternatives, the largest reward is found first, and then the response is scored against the first that
    is as large.
    """
    reading = rules_at(configurations, 0)
    quantities, added_numbers = reads_quantities(configurations), counts_added_numbers(configurations)
    entry = np.int64(0)
    for row in range(first, last):
        if stop_flag[0] != 0:
            return False
        status, n, mean_words, coverage, added = read_response(
            workspace, tables, data, offsets[row], offsets[row + 1], reading, quantities, added_numbers
        )
        first_reference, number = reference_index[row], np.int64(1)
        if alternatives.shape[0]:
            number = alternatives[first_reference + 1] - alternatives[first_reference]
            first_reference = alternatives[first_reference]
        if status != OK:
            number = np.int64(1)  # they have equal rewards
        if entries.counts.shape[0]:
            entries.counts[row - first] = n if status == OK else 0
            if status == OK:
                write_spans(entries, entry, workspace, data, offsets[row], n)
        for visit in range(2 * number if number > 1 else 1):
            if stop_flag[0] != 0:
                return False
            alternative = visit % number
            reference = first_reference + alternative
            if number > 1 and visit == number:
                choose_alternatives(trials, number)
            m = matched = np.int64(0)
            strict = lcs = total = NOT_MEASURED
            aligned, before = False, reading
            for k in range(configurations.shape[0]):
                if visit >= number and trials[k, trials.shape[1] + CHOSEN] != alternative:
                    continue
                rules, measures = rules_at(configurations, k), components[k]
                reason = gate_reason(status, coverage, added, rules)
                for component in range(measures.shape[0]):
                    measures[component, row] = 0.0
                measures[FORMAT, row] = 1.0 if passes_format_gate(reason) else 0.0
                measures[COVERAGE, row] = coverage
                if reason == OK:
                    if not aligned:
                        m, matched = align_with_reference(workspace, references, reference, n)
                    if rules.lcs_order and lcs == NOT_MEASURED:
                        lcs = lcs_order(workspace.ints, references, reference, n, m)
                    if not rules.lcs_order and strict == NOT_MEASURED:
                        strict = strict_order(workspace.ints, references, reference, n, m, matched)
                    is_similar = aligned and not differ_in_similarity(rules, before)
                    if not is_similar:
                        measure_similarities(workspace.ints, references, reference, n, rules)
                    if not is_similar or differ_in_position(rules, before):
                        total = sum_over_anchors(workspace.ints, n, m, rules)
                    aligned, before = True, rules
                    measures[CONSISTENCY, row] = 1.0
                    measures[STEP_GAP, row] = step_gap(n, m)
                    measures[MEAN_WORDS, row] = mean_words
                    measures[ORDER, row] = lcs if rules.lcs_order else strict
                    measures[CONTENT, row] = content_reward(total, n, m, matched, rules)
                    measures[ANCHORS, row] = matched
                    combine(measures, row, rules)
                reward = reward_of(measures[SCORE, row], rules)
                if number > 1 and visit < number:
                    trials[k, alternative] = reward
                else:
                    reasons[k, row] = reason
                    rewards[k, row] = reward
                    if entries.counts.shape[0]:
                        entries.alternatives[k, row - first] = alternative
                        if status == OK:
                            write_matches(entries, k, entry, workspace.ints, n, reason == OK)
        if entries.counts.shape[0] and status == OK:
            entry += n
    return True


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
    alternatives: np.ndarray  # int64 (0,): the fast path has no references with alternatives
    trials: np.ndarray  # float64 (1, 2): nor rewards against them
    entries: StepEntries  # empty, writable
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
        alternatives=NO_ALTERNATIVES,
        trials=allocate_trials(1, 1),
        entries=allocate_entries(1, 0, 0),
        parsed=References(*(frozen(column, column.dtype.type) for column in references)),
        references=references,
        workspace=workspace,
    )


@helper
def locate_references(request, expected, rows, quantities):
    """Choose the row of each response's reference; returns the number of references that have to be read."""
    unread = expected
    first = np.int64(FIRST_FREE_ROW)
    if expected == 1:
        text, start, length = request.reference_text, request.reference_offsets[0], request.reference_offsets[1]
        first = slot_row(text, start, length, request.seed)
        if holds_reference(request.slots, first, text, start, length, quantities):
            unread = np.int64(0)
        else:
            invalidate(request.slots, first)
    for k in range(rows):
        request.chosen[k] = k if expected == rows else 0
        request.reference_rows[k] = first + request.chosen[k]
    return unread


@hot_kernel
def read_request(request, body, max_reference_bytes, quantities):
    """Read the request in `body` (uint8, read only): (number of responses or USE_GENERAL_PATH, unread references).

    request: the arrays of the envelope. Handles valid JSON of references, responses and optionally `include`, with one
    reference or one for each response. `read_missing` has to read the unread references before scoring, also with or
    without `quantities`.
    """
    fields = request.fields
    outcome = read_members(
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
    return rows, locate_references(request, expected, rows, quantities)


def read_missing(request: FastPathRequest, unread: int, max_steps: int, quantities: bool, tables: np.ndarray) -> bool:
    """Read the `unread` references of the request into their rows; return False if one of them is invalid."""
    envelope = request.envelope
    first = int(envelope.reference_rows[0])
    room = request.references._replace(ranges=request.references.ranges[first : first + unread + 1])
    offsets = envelope.reference_offsets[: unread + 1]
    statuses, bad_lines = request.reasons[0, :unread], np.empty(unread, np.int64)
    text, workspace = envelope.reference_text, request.workspace
    entry(read_references)(statuses, bad_lines, room, text, offsets, max_steps, quantities, tables, workspace, NEVER)
    if statuses.any():
        return False
    if unread == 1:
        fill_slot(envelope.slots, first, text, int(offsets[1]), quantities)
    return True

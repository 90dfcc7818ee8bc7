"""The reward of one response: gates, alignment and arithmetic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler import helper, inlined
from .memory import COVERAGES, KEY_STARTS, PARTNERS, VALUES, bits_set, continuation_bits, sparse
from .reading.response import passes_format_gate, read_response
from .rules import ADDED_NUMBERS, ADDED_WORDS, DOUBLE, LOW_COVERAGE, NO_LIMIT, OK, SHIFT, UNIT, Rules
from .semantics import (
    UNMATCHED,
    align_with_reference,
    content_reward,
    differ_in_position,
    differ_in_similarity,
    lcs_order,
    length_penalty,
    measure_similarities,
    quantity_errors,
    step_gap,
    strict_order,
    sum_over_anchors,
)
from .threads import fetch_add

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
    "quantity_errors",
)
"""Rows of `components`, in this order."""

FORMAT, CONSISTENCY, COVERAGE, STEP_GAP, MEAN_WORDS, SCALE = range(6)
ORDER, CONTENT, SEMANTICS, ANCHORS, SCORE, QUANTITY_ERRORS = range(6, 12)


@inlined
def rules_at(configurations, k):
    """Return configuration `k` of `configurations`, float64 (k, 23): the fields of `Rules` as numbers."""
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
        word_coverage=values[11] != 0.0,
        quantity_error_factor=values[12],
        max_added_words=int(values[13]),
        max_added_numbers=int(values[14]),
        position_decay=values[15],
        use_step_gap=values[16] != 0.0,
        use_length=values[17] != 0.0,
        use_position=values[18] != 0.0,
        use_order=values[19] != 0.0,
        think_prefilled=values[20] != 0.0,
        max_response_bytes=int(values[21]),
        max_steps=int(values[22]),
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
    score = scale + semantics if rules.sum_total else scale * semantics
    if measures[QUANTITY_ERRORS, row] > 0.0:
        score *= rules.quantity_error_factor ** measures[QUANTITY_ERRORS, row]
    measures[SCORE, row] = score


MIN_STEP_BYTES = 56
"""Bytes of the shortest step in `<key>` and `<orc>`: a response has at most one entry for each as many bytes."""

TIE = 1e-9
"""Rewards of alternatives that differ by no more are equal (docs/rules.md, Alternatives)."""

BLOCK = 64
NO_ALTERNATIVES = frozen(np.zeros(0, np.int64), np.int64)


class StepEntries(NamedTuple):
    """Room for e entries for the steps of n responses under k configurations; all empty if they are not wanted."""

    used: np.ndarray  # int64 (1,): the number of entries that are used, from 0 on
    starts: np.ndarray  # int64 (n,): the first entry of each response in the columns below
    counts: np.ndarray  # int64 (n,): its entries, side by side
    spans: np.ndarray  # int64 (4, e): start and end of the key line and of the orc step, in code points of the response
    coverages: np.ndarray  # float64 (e,)
    references: np.ndarray  # int64 (k, e): step of the reference from 0, or UNMATCHED
    values: np.ndarray  # float64 (k, e)
    alternatives: np.ndarray  # int64 (k, n): the alternative that counted, from 0


def allocate_entries(configurations: int, rows: int, size: int) -> StepEntries:
    """Allocate `size` entries for the steps of `rows` responses; untouched pages take no memory."""
    return StepEntries(
        used=np.zeros(1, np.int64),
        starts=np.zeros(rows, np.int64),
        counts=np.zeros(rows, np.int64),
        spans=sparse((4, size), np.int64),
        coverages=sparse((size,), np.float64),
        references=sparse((configurations, size), np.int64),
        values=sparse((configurations, size), np.float64),
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
    """Return whether any configuration compares or counts quantities."""
    quantities = False
    for k in range(configurations.shape[0]):
        rules = rules_at(configurations, k)
        quantities |= rules.quantities or rules.quantity_error_factor < 1.0
    return quantities


@helper
def largest_limits(configurations):
    """Return the largest `max_added_numbers` and `max_added_words` of the configurations, NO_LIMIT if none has one."""
    numbers = words = np.int64(NO_LIMIT)
    for k in range(configurations.shape[0]):
        rules = rules_at(configurations, k)
        numbers = max(numbers, rules.max_added_numbers)
        words = max(words, rules.max_added_words)
    return numbers, words


@helper
def gate_reason(status, coverage, numbers, words, rules):
    """Return the reason of a response that was read with this status, and whose prose adds `numbers` and `words`."""
    if status == OK and coverage < rules.min_coverage:
        return LOW_COVERAGE
    if status == OK and 0 <= rules.max_added_numbers < numbers:
        return ADDED_NUMBERS
    if status == OK and 0 <= rules.max_added_words < words:
        return ADDED_WORDS
    return status


CHOSEN = -1
"""Column of `trials` with the alternative that counts; the others hold the reward against each."""
NOT_MEASURED = -1.0


def allocate_trials(threads: int, configurations: int, most: int) -> np.ndarray:
    """Allocate memory for rewards against up to `most` alternatives of a reference, float64 (threads, k, most + 1)."""
    return np.zeros((threads, configurations, most + 1))


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


@helper
def score_response(
    rewards,
    reasons,
    components,
    entries,
    row,
    data,
    start,
    stop,
    first_reference,
    number,
    references,
    configurations,
    reading,
    quantities,
    number_limit,
    word_limit,
    tables,
    workspace,
    trials,
    stop_flag,
):
    """Score the response `data[start:stop]`, row `row` of a batch, under k configurations, of which `reading` is the
    first; return False if the stop flag is set.

    first_reference, number: its alternatives. quantities, number_limit, word_limit: as `reads_quantities` and
    `largest_limits` return them. For the others see `score_batch`. Similarities and sums are measured again where they
    may differ from the configuration before.

    Of several alternatives, the largest reward is found first, and then the response is scored against the first that
    is as large.
    """
    if stop_flag[0] != 0:
        return False
    status, n, mean_words, coverage, numbers, words = read_response(
        workspace, tables, data, start, stop, reading, quantities, number_limit, word_limit
    )
    if status != OK:
        number = np.int64(1)  # they have equal rewards
    wants_entries = entries.counts.shape[0] > 0
    if wants_entries:
        entries.counts[row] = n if status == OK else 0
        if status == OK:
            entries.starts[row] = fetch_add(entries.used, 0, n)
            write_spans(entries, entries.starts[row], workspace, data, start, n)
    for visit in range(2 * number if number > 1 else 1):
        if stop_flag[0] != 0:
            return False
        alternative = visit % number
        reference = first_reference + alternative
        if number > 1 and visit == number:
            choose_alternatives(trials, number)
        m = matched = np.int64(0)
        strict = lcs = total = errors = NOT_MEASURED
        aligned, before = False, reading
        for k in range(configurations.shape[0]):
            if visit >= number and trials[k, trials.shape[1] + CHOSEN] != alternative:
                continue
            rules, measures = rules_at(configurations, k), components[k]
            reason = gate_reason(status, coverage, numbers, words, rules)
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
                if rules.quantity_error_factor < 1.0:
                    if errors == NOT_MEASURED:
                        errors = float(quantity_errors(workspace.ints, references, reference, n))
                    measures[QUANTITY_ERRORS, row] = errors
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
                if wants_entries:
                    entries.alternatives[k, row] = alternative
                    if status == OK:
                        write_matches(entries, k, entries.starts[row], workspace.ints, n, reason == OK)
    return True

"""The step-semantics reward: alignment, overlap and order of steps.

The exact sum so far is kept as partials: doubles of increasing magnitude that do not overlap. Source: Shewchuk,
*Adaptive Precision Floating-Point Arithmetic and Fast Robust Geometric Predicates* (1997), Grow-Expansion.

From left to right, a predicted action takes the earliest reference step after the last match that has the same action;
without such a step it stays unmatched and the position does not move.

Paper eq. 4 and 5, C.2, C.3; docs/rules.md, Step semantics.
"""

from __future__ import annotations

import math

import numpy as np

from .compiler import helper, inlined, kernel
from .memory import (
    ACTION,
    BY_ACTION,
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
    MAPPED_ACTION,
    MAPPED_IDS,
    MAPPED_OBJECTS,
    OBJECT_START,
    OBJECT_STOP,
    OBJECT_WORDS,
    OBJECTS,
    OBJECTS_USED,
    PARAMETER_WORDS,
    PARTNERS,
    SIMILARITIES,
    STAMPS,
    STARTS,
    STRINGS_USED,
    TERM_STOP,
    VALUES,
    WORD_STOP,
    read_only,
)
from .reading.references import (
    FREE,
    ID_AT,
    OBJECT_AT,
    STEP_AT,
    STRING_AT,
    WIDE,
    find_string,
    first_at_least,
    next_stamp,
)
from .rules import MIN_OBJECT_SIMILARITY, PARAMETER_WEIGHT, STEP_GAP_DENOMINATOR, STEP_GAP_NUMERATOR
from .sequences import BITS, is_subsequence, lcs_length
from .text.interning import PAIR, hash_pair, pair_of
from .text.quantities import dimension_of


@inlined
def add_exactly(partials, count, term):
    """Add `term` to the sum of the first `count` of `partials`; returns their new number, at most one more.

    partials: float64 scratch. There are never more of them than terms.
    """
    used = 0
    for k in range(count):
        partial = partials[k]
        if abs(term) < abs(partial):
            term, partial = partial, term
        total = term + partial
        error = partial - (total - term)
        if error != 0.0:
            partials[used] = error
            used += 1
        term = total
    if term != 0.0:
        partials[used] = term
        used += 1
    return used


@inlined
def rounded_sum(partials, count):
    """Return the sum of the first `count` of `partials`, rounded once: to the nearest double, ties to even."""
    total, error = 0.0, 0.0
    k = count
    while k > 0 and error == 0.0:
        k -= 1
        larger, partial = total, partials[k]
        total = larger + partial
        error = partial - (total - larger)
    if k > 0 and (error > 0.0) == (partials[k - 1] > 0.0):
        # The smaller partials have the sign of the error. If that is half a unit in the last place, it is more than
        # half with them, and not a tie.
        doubled = 2.0 * error
        if (total + doubled) - total == doubled:
            return total + doubled
    return total


@kernel
def exact_sums(sums, terms, offsets):
    """Compute the exactly rounded sum of each row of a column of finite numbers.

    sums: float64 (rows,), written. terms: float64. offsets: int64 (rows + 1,).
    """
    partials = np.empty(terms.shape[0], np.float64)
    for row in range(sums.shape[0]):
        count = 0
        for k in range(offsets[row], offsets[row + 1]):
            count = add_exactly(partials, count, terms[k])
        sums[row] = rounded_sum(partials, count)


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


@inlined
def next_step(by_action, action, step):
    """Return the first step with this action from `step` on, or UNMATCHED. by_action: the reference's steps, sorted."""
    place = first_at_least(by_action, action << 32 | step)
    if place < by_action.shape[0] and by_action[place] >> 32 == action:
        return by_action[place] & 0xFFFFFFFF
    return np.int64(UNMATCHED)


@helper
def align_by_action(partners, prediction, by_action):
    """Do what `align` does, in O(n log m)."""
    first = np.int64(0)
    matched = 0
    for i in range(prediction.shape[0]):
        j = next_step(by_action, prediction[i], first)
        partners[i] = j
        if j != UNMATCHED:
            first = j + 1
            matched += 1
    return matched


@helper
def lcs_by_action(prediction, by_action, ends):
    """Return the LCS length of n predicted actions and a reference, in O(n² log m).

    ends: int64 scratch (n,): the earliest step at which a common subsequence of k + 1 actions ends.
    """
    length = np.int64(0)
    for i in range(prediction.shape[0]):
        for k in range(length, -1, -1):
            j = next_step(by_action, prediction[i], ends[k - 1] + 1 if k > 0 else np.int64(0))
            if j == UNMATCHED:
                continue
            if k == length:
                ends[k] = j
                length += 1
            elif j < ends[k]:
                ends[k] = j
    return length


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


@inlined
def iou(a, b, stamps, stamp):
    """Return |A ∩ B| / |A ∪ B| of int64 ids; 1 if both are empty.

    stamps: int64 scratch indexed by id, in which `stamp` and `stamp + 1` do not occur.
    """
    union = 0
    common = 0
    for k in range(a.shape[0]):
        if stamps[a[k]] != stamp:
            stamps[a[k]] = stamp
            union += 1
    for k in range(b.shape[0]):
        seen = stamps[b[k]]
        if seen == stamp:
            common += 1
        elif seen != stamp + 1:
            union += 1
        stamps[b[k]] = stamp + 1
    return common / union if union else 1.0


@helper
def iou_with_wide(a, b, stamps, stamp):
    """Return what `iou` does for `b` without repeats and in ascending order, in O(|a| log |b|)."""
    distinct = 0
    common = 0
    for k in range(a.shape[0]):
        if stamps[a[k]] != stamp:
            stamps[a[k]] = stamp
            distinct += 1
            place = first_at_least(b, a[k])
            if place < b.shape[0] and b[place] == a[k]:
                common += 1
    return common / (distinct + b.shape[0] - common)


@kernel
def ious(values, a, a_offsets, b, b_offsets, symbols):
    """Compute the IoU of each pair of rows of two columns of sets.

    values: float64 (rows,), written. a, b: int64 ids in [0, symbols), with int64 offsets (rows + 1,).
    """
    stamps = np.zeros(symbols, np.int64)
    for row in range(values.shape[0]):
        first = a[a_offsets[row] : a_offsets[row + 1]]
        second = b[b_offsets[row] : b_offsets[row + 1]]
        values[row] = iou(first, second, stamps, 2 * row + 1)


@helper
def step_gap(n, m):
    """Return f = cos(πd / 2M) of the gap d between n predicted and m reference steps, 0 from d = M on."""
    d = abs(n - m)
    M = max(1, STEP_GAP_NUMERATOR * m // STEP_GAP_DENOMINATOR)
    return math.cos(math.pi * d / (2 * M)) if d < M else 0.0


@helper
def length_penalty(mean_words, rules):
    """Return g: 1 for a mean of up to L words, else the mean as printed in eq. 3, or the mean over L."""
    if mean_words <= rules.max_mean_words:
        return 1.0
    return mean_words / rules.max_mean_words if rules.relative_length else mean_words


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
    """Write to MAPPED_ACTION, MAPPED_IDS and MAPPED_OBJECTS the strings of the n key steps with the ids of reference
    `row`. Returns the last id + 1.
    """
    ints = workspace.ints
    reference_strings = match_strings(workspace, references, row)
    for k in range(ints[COUNTS, IDS_USED]):
        ints[MAPPED_IDS, k] = ints[MAPPED, ints[IDS, k]]
    for k in range(ints[COUNTS, OBJECTS_USED]):
        ints[MAPPED_OBJECTS, k] = ints[MAPPED, ints[OBJECTS, k]]
    for k in range(n):
        ints[MAPPED_ACTION, k] = ints[MAPPED, ints[ACTION, k]]
    return reference_strings + ints[COUNTS, STRINGS_USED]


@inlined
def is_much_longer(m, n):
    """Return whether searching m sorted values of a reference is faster than going through them for n of a response."""
    return m > WIDE + 16 * n


@inlined
def set_similarity(ints, a, b):
    """Return the IoU of a set of the response and one of the reference, which is searched if it is much longer."""
    stamps, stamp = ints[STAMPS], next_stamp(ints)
    if is_much_longer(b.shape[0], a.shape[0]):
        return iou_with_wide(a, b, stamps, stamp)
    return iou(a, b, stamps, stamp)


@inlined
def object_similarity(ints, i, references, first_object, first_id, j, rules):
    """Return Obj(i, j): IoU of the objects, or of their words if it is 0 and both steps have objects (the paper's
    compensation), or the larger of the two (`max`).

    i is a step of the response, j a row of `references.steps`; the reference's objects and ids begin at first_….
    """
    reference_steps = references.steps
    a = ints[MAPPED_OBJECTS, ints[OBJECT_START, i] : ints[OBJECT_STOP, i]]
    b = references.objects[
        first_object + reference_steps[OBJECT_START, j] : first_object + reference_steps[OBJECT_STOP, j]
    ]
    similarity = set_similarity(ints, a, b)
    if similarity == 1.0 or a.shape[0] == 0 or b.shape[0] == 0:
        return similarity
    if similarity > 0.0 and not rules.max_object_similarity:
        return similarity
    a = ints[MAPPED_IDS, ints[OBJECT_WORDS, i] : ints[PARAMETER_WORDS, i]]
    b = references.ids[first_id + reference_steps[OBJECT_WORDS, j] : first_id + reference_steps[PARAMETER_WORDS, j]]
    return max(similarity, set_similarity(ints, a, b))


@inlined
def parameter_similarity(ints, i, references, first_id, j, quantities):
    """Return Par(i, j): IoU of the words, or of the terms (`quantities`), of all parameters; 1 if neither step has any,
    0 if only one has.
    """
    reference_steps = references.steps
    start = WORD_STOP if quantities else PARAMETER_WORDS
    stop = TERM_STOP if quantities else WORD_STOP
    a = ints[MAPPED_IDS, ints[start, i] : ints[stop, i]]
    b = references.ids[first_id + reference_steps[start, j] : first_id + reference_steps[stop, j]]
    return set_similarity(ints, a, b)


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
def align_with_reference(workspace, references, row, n):
    """Renumber the n steps in the workspace with the ids of reference `row`, and write their anchors to PARTNERS.

    Returns (m, |W|).
    """
    ints = workspace.ints
    renumber_with_reference(workspace, references, row, n)
    first_step, stop = references.ranges[row, STEP_AT], references.ranges[row + 1, STEP_AT]
    m, partners, predicted = stop - first_step, ints[PARTNERS, :n], ints[MAPPED_ACTION, :n]
    if is_much_longer(m, n):
        matched = align_by_action(partners, predicted, references.steps[BY_ACTION, first_step:stop])
    else:
        expected = references.steps[ACTION, first_step:stop]
        matched = align(partners, predicted, expected, ints[FIRST], ints[FOLLOWING])
    return m, np.int64(matched)


@helper
def lcs_of_actions(ints, predicted, expected):
    """Return the LCS length of the actions of more than 64 steps each. They are numbered from 0 in MAPPED, because the
    cost depends on the largest number.
    """
    first, n, m = ints[FIRST], predicted.shape[0], expected.shape[0]
    numbers = ints[MAPPED]
    for j in range(m):
        first[expected[j]] = UNMATCHED
    for i in range(n):
        first[predicted[i]] = UNMATCHED
    symbols = np.int64(0)
    for k in range(n + m):
        action = predicted[k] if k < n else expected[k - n]
        if first[action] == UNMATCHED:
            first[action] = symbols
            symbols += 1
        numbers[k] = first[action]
    return lcs_length(numbers[:n], read_only(numbers[n : n + m]), symbols)


@helper
def lcs_order(ints, references, row, n, m):
    """Return LCS / m, the order reward `lcs`.

    After `align_with_reference`, like `strict_order`: neither changes what the other or `measure_similarities` reads.
    """
    first_step = references.ranges[row, STEP_AT]
    predicted, expected = ints[MAPPED_ACTION, :n], references.steps[ACTION, first_step : first_step + m]
    if is_much_longer(m, n):
        by_action = references.steps[BY_ACTION, first_step : first_step + m]
        return lcs_by_action(predicted, by_action, ints[FOLLOWING]) / m
    if n > BITS and m > BITS:
        return lcs_of_actions(ints, predicted, expected) / m
    return lcs_length(predicted, expected, np.int64(0)) / m  # without symbols


@helper
def strict_order(ints, references, row, n, m, matched):
    """Return the order reward `strict`: whether one action sequence is a subsequence of the other.

    The anchors decide whether the response's is: each action is matched with its earliest step after the last match.
    """
    first_step = references.ranges[row, STEP_AT]
    predicted, expected = ints[MAPPED_ACTION, :n], references.steps[ACTION, first_step : first_step + m]
    return 1.0 if matched == n or is_subsequence(expected, predicted) else 0.0


@helper
def measure_similarities(ints, references, row, n, rules):
    """Write Obj + ½ Par of the anchors in PARTNERS to SIMILARITIES."""
    ranges = references.ranges
    first_step, first_id, first_object = ranges[row, STEP_AT], ranges[row, ID_AT], ranges[row, OBJECT_AT]
    similarities = ints[SIMILARITIES].view(np.float64)
    for i in range(n):
        j = ints[PARTNERS, i]
        if j == UNMATCHED:
            continue
        similarity = object_similarity(ints, i, references, first_object, first_id, first_step + j, rules)
        if similarity >= MIN_OBJECT_SIMILARITY:
            similarity += PARAMETER_WEIGHT * parameter_similarity(
                ints, i, references, first_id, first_step + j, rules.quantities
            )
        similarities[i] = similarity


@inlined
def dimension_in_text(ints, k):
    """Return the dimension of the response's string IDS[k], or -1 of a word."""
    string = ints[IDS, k]
    return dimension_of(ints[HEADS, string], ints[LENGTHS, string], ints[HEADS], ints[LENGTHS], np.int64(0))


@inlined
def dimension_in_reference(references, first_string, string):
    """Return the dimension of a string of the reference whose strings begin at `first_string`, or -1 of a word."""
    head, length = references.heads[first_string + string], references.lengths[first_string + string]
    return dimension_of(head, length, references.heads, references.lengths, first_string)


@helper
def count_errors(ints, start, stop, references, first_string, b):
    """Count the errors of the terms IDS[start:stop] against the reference's terms `b`: for each dimension the larger of
    the numbers of quantities that only one of the two has.
    """
    stamps, stamp = ints[STAMPS], next_stamp(ints)
    unpaired = ints[FIRST]  # by dimension: quantities that only the response has, less those that the reference has
    for k in range(start, stop):
        unpaired[max(dimension_in_text(ints, k), 0)] = 0
    for k in range(b.shape[0]):
        unpaired[max(dimension_in_reference(references, first_string, b[k]), 0)] = 0
        stamps[b[k]] = stamp
    errors = np.int64(0)
    for k in range(start, stop):
        seen, dimension = stamps[ints[MAPPED_IDS, k]], dimension_in_text(ints, k)
        stamps[ints[MAPPED_IDS, k]] = stamp + 1
        if dimension >= 0 and seen != stamp and seen != stamp + 1:
            unpaired[dimension] += 1
            errors += 1
    for k in range(b.shape[0]):
        seen, dimension = stamps[b[k]], dimension_in_reference(references, first_string, b[k])
        stamps[b[k]] = stamp + 1
        if dimension >= 0 and seen == stamp:
            unpaired[dimension] -= 1
            errors += unpaired[dimension] < 0
    return errors


@helper
def count_errors_against_wide(ints, start, stop, b, counts):
    """Do what `count_errors` does for `b` without repeats and in ascending order, in O(terms · log |b|).

    counts: what `append_dimension_counts` wrote for `b`.
    """
    stamps, stamp = ints[STAMPS], next_stamp(ints)
    unpaired, shared = ints[FIRST], ints[FOLLOWING]
    for k in range(start, stop):
        dimension = max(dimension_in_text(ints, k), 0)
        unpaired[dimension] = shared[dimension] = 0
    for k in range(start, stop):
        dimension, string = dimension_in_text(ints, k), ints[MAPPED_IDS, k]
        if dimension >= 0 and stamps[string] != stamp:
            stamps[string] = stamp
            place = first_at_least(b, string)
            if place < b.shape[0] and b[place] == string:
                shared[dimension] += 1
            else:
                unpaired[dimension] += 1
    errors, dimensions = counts[0], counts[2 : 2 + counts[1]]
    for k in range(start, stop):
        dimension = dimension_in_text(ints, k)
        if dimension < 0 or unpaired[dimension] < 0:
            continue
        place = first_at_least(dimensions, dimension << 32)
        expected = np.int64(0)
        if place < dimensions.shape[0] and dimensions[place] >> 32 == dimension:
            expected = dimensions[place] & 0xFFFFFFFF
        errors += max(unpaired[dimension], expected - shared[dimension]) - expected
        unpaired[dimension] = UNMATCHED  # this dimension is done
    return errors


@helper
def quantity_errors(ints, references, row, n):
    """Return E: the wrong quantities of the parameters of all anchors in PARTNERS (docs/rules.md, Wrong quantities)."""
    ranges, steps = references.ranges, references.steps
    first_step, first_id, first_string = ranges[row, STEP_AT], ranges[row, ID_AT], ranges[row, STRING_AT]
    errors = np.int64(0)
    for i in range(n):
        if ints[PARTNERS, i] == UNMATCHED:
            continue
        j = first_step + ints[PARTNERS, i]
        start, stop, end = ints[WORD_STOP, i], ints[TERM_STOP, i], first_id + steps[TERM_STOP, j]
        b = references.ids[first_id + steps[WORD_STOP, j] : end]
        if is_much_longer(b.shape[0], stop - start):
            errors += count_errors_against_wide(ints, start, stop, b, references.ids[end:])
        else:
            errors += count_errors(ints, start, stop, references, first_string, b)
    return errors


@helper
def sum_over_anchors(ints, n, m, rules):
    """Return Σ m_ij (Obj + ½ Par) over the anchors in PARTNERS, rounded once; the terms are written to VALUES."""
    partials, values = ints[FOLLOWING].view(np.float64), ints[VALUES].view(np.float64)
    similarities = ints[SIMILARITIES].view(np.float64)
    count = 0
    for i in range(n):
        j = ints[PARTNERS, i]
        if j == UNMATCHED:
            continue
        value = similarities[i]
        if rules.use_position:
            value *= position_factor(i, j, m, rules.position_decay)
        values[i] = value
        count = add_exactly(partials, count, value)
    return rounded_sum(partials, count)


@inlined
def content_reward(total, n, m, matched, rules):
    """Return (1 / |W|) Σ m_ij (Obj + ½ Par), or the sum over max(n, m) (`max_len`); 0 without anchors."""
    if matched == 0:
        return 0.0
    return total / (max(n, m) if rules.max_len_content else matched)


@inlined
def differ_in_similarity(a, b):
    """Return whether two configurations may give anchors different similarities."""
    return a.max_object_similarity != b.max_object_similarity or a.quantities != b.quantities


@inlined
def differ_in_position(a, b):
    """Return whether two configurations may give anchors different position factors."""
    return a.use_position != b.use_position or a.position_decay != b.position_decay

"""The prediction against the reference: order of actions, anchored pairs and what they share, and the step scale.

Anchors, intersections, subsequences and formulas are those of the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...kernels.rules import (
    MIN_OBJECT_SIMILARITY,
    PARAMETER_WEIGHT,
    STEP_GAP_DENOMINATOR,
    STEP_GAP_NUMERATOR,
    Rules,
)
from ...kernels.similarity.align import UNMATCHED, anchors
from ...kernels.similarity.iou import ious
from ...kernels.similarity.lcs import lcs_lengths
from ...kernels.similarity.scale import length_penalty, step_gap
from ...kernels.similarity.semantics import position_factor
from ...kernels.similarity.subsequence import subsequences
from ..settings import ScoreSettings
from .reading import Line
from .schema import Content, Order, Pair, Scale, Similarity
from .words import numbered

__all__ = ["Alignment", "align", "common_path", "formula"]


class Alignment(NamedTuple):
    """What is measured against the reference for a response that passes the gates."""

    scale: Scale | None
    order: Order
    pairs: list[Pair]
    content: Content


class Sets(NamedTuple):
    """Two collections of strings to compare as sets."""

    predicted: Sequence[str]
    expected: Sequence[str]


def formula(helper: Any) -> Any:
    """Return the Python function of a kernel's formula: the same operations on the same doubles."""
    return getattr(helper, "py_func", helper)


def align(
    predicted: Sequence[Line],
    positions: Sequence[int],
    expected: Sequence[Line],
    pieces: Sequence[int],
    settings: ScoreSettings,
    rules: Rules,
) -> Alignment:
    """Align the steps of a prediction, whose positions are `positions`, with those of a reference.

    pieces: white-space separated pieces of each prose step; without any, the scale is None.
    """
    n, m = len(predicted), len(expected)
    actions = Sets([line.action.canon for line in predicted], [line.action.canon for line in expected])
    partners = _anchors(actions)
    pairs = _pairs(predicted, expected, partners, settings)
    for pair in pairs:
        pair.predicted = positions[pair.predicted - 1]
    total = 0.0
    for pair in pairs:
        total += pair.value
    denominator = (max(n, m) if settings.content_denominator == "max_len" else len(pairs)) if pairs else 0
    matched = {pair.reference for pair in pairs}
    content = Content(
        anchors=len(pairs),
        sum=total,
        denominator=denominator,
        value=total / denominator if pairs else 0.0,
        unmatched_predicted=[positions[i] for i, j in enumerate(partners) if j == UNMATCHED],
        unmatched_reference=[j for j in range(1, m + 1) if j not in matched],
    )
    scale = _scale(n, m, pieces, settings, rules) if pieces else None
    return Alignment(scale, _order(actions, positions, settings), pairs, content)


def _scale(n: int, m: int, pieces: Sequence[int], settings: ScoreSettings, rules: Rules) -> Scale:
    mean_words = sum(pieces) / len(pieces)
    f = float(formula(step_gap)(n, m))
    g = float(formula(length_penalty)(mean_words, rules))
    value = f if settings.use_step_gap else 1.0
    if settings.use_length:
        value /= g
    return Scale(
        predicted_steps=n,
        reference_steps=m,
        gap=abs(n - m),
        gap_limit=max(1, STEP_GAP_NUMERATOR * m // STEP_GAP_DENOMINATOR),
        step_gap=f,
        step_gap_used=settings.use_step_gap,
        mean_words=mean_words,
        max_mean_words=settings.max_mean_words,
        length_penalty=g,
        length_used=settings.use_length,
        value=value,
    )


def _columns(actions: Sets) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    numbers: dict[str, int] = {}
    columns = *numbered([actions.predicted], numbers), *numbered([actions.expected], numbers)
    return *columns, max(1, len(numbers))


def _anchors(actions: Sets) -> list[int]:
    """Return the index of the reference step, from 0, of each predicted step, or UNMATCHED."""
    partners = np.full(len(actions.predicted), UNMATCHED, np.int64)
    anchors(partners, np.zeros(1, np.int64), *_columns(actions))
    return partners.tolist()


def _order(actions: Sets, positions: Sequence[int], settings: ScoreSettings) -> Order:
    *columns, symbols = _columns(actions)
    subsequence, length = np.zeros(1, np.int64), np.zeros(1, np.int64)
    subsequences(subsequence, *columns)
    lcs_lengths(length, *columns, symbols)
    path = common_path(actions.predicted, actions.expected)
    free = Counter(actions.expected) - Counter(actions.expected[j] for _, j in path)
    on_path = {i for i, _ in path}
    misplaced = []
    for i, action in enumerate(actions.predicted):
        if i not in on_path and free[action] > 0:
            free[action] -= 1
            misplaced.append(positions[i])
    in_order = bool(subsequence[0])
    value = int(length[0]) / len(actions.expected) if settings.order == "lcs" else float(in_order)
    return Order(
        mode=settings.order,
        predicted=list(actions.predicted),
        expected=list(actions.expected),
        subsequence=in_order,
        lcs=int(length[0]),
        path=[(positions[i], j + 1) for i, j in path],
        out_of_order=misplaced,
        value=value,
        used=settings.use_order,
    )


def common_path(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return the index pairs of one longest common subsequence, by the recurrence of `kernels.similarity.lcs`.

    The kernel only counts; here the bit vector after every element of b is kept, as a Python integer, and the path is
    traced back through them: a zero that an earlier vector already has was not made by this element.
    """
    positions: dict[str, int] = {}
    for i, action in enumerate(a):
        positions[action] = positions.get(action, 0) | 1 << i
    full = (1 << len(a)) - 1
    vector, vectors = full, [full]
    for action in b:
        both = vector & positions.get(action, 0)
        vector = (vector + both | vector - both) & full
        vectors.append(vector)
    i, j, path = len(a), len(b), []
    while i and j:
        if vectors[j] >> (i - 1) & 1:
            i -= 1
        elif vectors[j - 1] >> (i - 1) & 1:
            i, j = i - 1, j - 1
            path.append((i, j))
        else:
            j -= 1
    return path[::-1]


def _pairs(
    predicted: Sequence[Line], expected: Sequence[Line], partners: Sequence[int], settings: ScoreSettings
) -> list[Pair]:
    anchored = [(i, j) for i, j in enumerate(partners) if j != UNMATCHED]
    mine, theirs = [predicted[i] for i, _ in anchored], [expected[j] for _, j in anchored]
    objects = _similarities([Sets(a.object_canons, b.object_canons) for a, b in zip(mine, theirs, strict=True)])
    words = _similarities([Sets(a.object_words, b.object_words) for a, b in zip(mine, theirs, strict=True)])
    parameters = _similarities([Sets(a.parameter_words, b.parameter_words) for a, b in zip(mine, theirs, strict=True)])
    pairs = []
    for k, (i, j) in enumerate(anchored):
        whole, par = objects[k], parameters[k]
        obj = whole if whole.value > 0 or not mine[k].object_canons or not theirs[k].object_canons else words[k]
        obj.compared = (
            "nothing" if not whole.shared + whole.missing + whole.extra else ("objects" if obj is whole else "words")
        )
        counted = obj.value >= MIN_OBJECT_SIMILARITY
        value = obj.value
        if counted:
            value += PARAMETER_WEIGHT * par.value
        else:
            par.value, par.compared = 0.0, "nothing"
        position = 1.0
        if settings.use_position:
            position = _position(i, j, len(expected), settings.position_decay)
            value *= position
        pairs.append(
            Pair(
                predicted=i + 1,
                reference=j + 1,
                action=mine[k].action.canon,
                objects=obj,
                parameters=par,
                parameters_counted=counted,
                position=position,
                value=value,
            )
        )
    return pairs


def _position(i: int, j: int, m: int, decay: float) -> float:
    with np.errstate(over="ignore"):  # a large decay makes it infinite, and the factor 0, as in the kernel
        return float(formula(position_factor)(i, j, m, np.float64(decay)))


def _similarities(rows: Sequence[Sets]) -> list[Similarity]:
    numbers: dict[str, int] = {}
    predicted = numbered([row.predicted for row in rows], numbers)
    expected = numbered([row.expected for row in rows], numbers)
    values = np.zeros(len(rows))
    ious(values, *predicted, *expected, max(1, len(numbers)))
    found = []
    for row, value in zip(rows, values.tolist(), strict=True):
        mine, theirs = dict.fromkeys(row.predicted), dict.fromkeys(row.expected)
        found.append(
            Similarity(
                value=value,
                compared="words" if mine or theirs else "nothing",
                shared=[string for string in theirs if string in mine],
                missing=[string for string in theirs if string not in mine],
                extra=[string for string in mine if string not in theirs],
            )
        )
    return found

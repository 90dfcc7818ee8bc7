"""The prediction against the reference, by the kernels: order of actions, pairs, what they share, and step scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

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
from .reading import Reading, words_of
from .schema import Content, Order, Pair, Phrase, Scale, Similarity

__all__ = ["Alignment", "align", "common_path", "formula"]

Sides = tuple[Sequence[str], Sequence[str]]


class Alignment(NamedTuple):
    scale: Scale | None
    order: Order
    pairs: list[Pair]
    content: Content


def formula(helper: Any) -> Any:
    """Return the Python function of a kernel's formula: the same operations on the same doubles."""
    return getattr(helper, "py_func", helper)


def align(reading: Reading, expected: Reading, settings: ScoreSettings, rules: Rules) -> Alignment:
    positions, m = reading.positions, len(expected.lines)
    actions = [line.action.canon for line in reading.valid], [line.action.canon for line in expected.lines]
    columns, symbols = _columns([actions])
    anchored = np.full(len(positions), UNMATCHED, np.int64)
    anchors(anchored, np.zeros(1, np.int64), *columns, symbols)
    partners = anchored.tolist()  # of each predicted step: the index of the reference step, or UNMATCHED
    pairs = _pairs([(i, j) for i, j in enumerate(partners) if j != UNMATCHED], reading, expected, settings)
    total = math.fsum(pair.value for pair in pairs)
    denominator = (max(len(positions), m) if settings.content_denominator == "max_len" else len(pairs)) if pairs else 0
    matched = {pair.reference for pair in pairs}
    content = Content(
        anchors=len(pairs),
        sum=total,
        denominator=denominator,
        value=total / denominator if pairs else 0.0,
        unmatched_predicted=[positions[i] for i, j in enumerate(partners) if j == UNMATCHED],
        unmatched_reference=[j for j in range(1, m + 1) if j not in matched],
    )
    scale = _scale(reading, m, settings, rules) if reading.prose else None
    return Alignment(scale, _order(actions, columns, symbols, positions, settings), pairs, content)


def _scale(reading: Reading, m: int, settings: ScoreSettings, rules: Rules) -> Scale:
    n, mean_words = len(reading.valid), sum(prose.pieces for prose in reading.prose) / len(reading.prose)
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


def _columns(rows: Sequence[Sides]) -> tuple[list[np.ndarray], int]:
    """Return values and offsets of both sides as kernels take them, int64 and read-only, and the number of numbers."""
    numbers: dict[str, int] = {}
    columns = []
    for side in (0, 1):
        values = [numbers.setdefault(string, len(numbers)) for row in rows for string in row[side]]
        columns.append(np.array(values, np.int64))
        columns.append(np.cumsum([0, *(len(row[side]) for row in rows)], dtype=np.int64))
    for column in columns:
        column.setflags(write=False)
    return columns, max(1, len(numbers))


def _order(
    actions: Sides, columns: Sequence[np.ndarray], symbols: int, positions: Sequence[int], settings: ScoreSettings
) -> Order:
    predicted, expected = actions
    subsequence, length = np.zeros(1, np.int64), np.zeros(1, np.int64)
    subsequences(subsequence, *columns)
    lcs_lengths(length, *columns, symbols)
    path = common_path(predicted, expected)
    free = Counter(expected) - Counter(expected[j] for _, j in path)
    on_path = {i for i, _ in path}
    misplaced = []
    for i, action in enumerate(predicted):
        if i not in on_path and free[action] > 0:
            free[action] -= 1
            misplaced.append(positions[i])
    in_order = bool(subsequence[0])
    value = int(length[0]) / len(expected) if settings.order == "lcs" else float(in_order)
    return Order(
        mode=settings.order,
        predicted=list(predicted),
        expected=list(expected),
        subsequence=in_order,
        lcs=int(length[0]),
        path=[(positions[i], j + 1) for i, j in path],
        out_of_order=misplaced,
        value=value,
        used=settings.use_order,
    )


def common_path(a: Sequence[str], b: Sequence[str]) -> list[tuple[int, int]]:
    """Return the index pairs of one longest common subsequence, by the recurrence of `kernels.similarity.lcs`.

    The bit vector after every element of b is kept, and the path is traced back: a zero that an earlier vector already
    has was not made by this element.
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
    anchored: Sequence[tuple[int, int]], reading: Reading, expected: Reading, settings: ScoreSettings
) -> list[Pair]:
    predicted, positions = reading.valid, reading.positions
    lines = [(predicted[i], expected.lines[j]) for i, j in anchored]
    objects = _similarities("objects", [(_canons(a.objects), _canons(b.objects)) for a, b in lines])
    words = _similarities("words", [(words_of(a.objects), words_of(b.objects)) for a, b in lines])
    parameters = _similarities("words", [(words_of(a.parameters), words_of(b.parameters)) for a, b in lines])
    pairs = []
    for (i, j), (line, _), obj, by_words, par in zip(anchored, lines, objects, words, parameters, strict=True):
        if settings.object_similarity == "max":
            by_words_counts = by_words.value > obj.value
        else:
            by_words_counts = bool(obj.missing and obj.extra) and not obj.shared
        if by_words_counts:
            obj = by_words
        value, counted = obj.value, obj.value >= MIN_OBJECT_SIMILARITY
        if counted:
            value += PARAMETER_WEIGHT * par.value
        else:
            par.value, par.compared = 0.0, "nothing"
        position = 1.0
        if settings.use_position:
            with np.errstate(over="ignore"):  # a large decay makes it infinite, and the factor 0, as in the kernel
                decay = np.float64(settings.position_decay)
                position = float(formula(position_factor)(i, j, len(expected.lines), decay))
            value *= position
        pairs.append(
            Pair(
                predicted=positions[i],
                reference=j + 1,
                action=line.action.canon,
                objects=obj,
                parameters=par,
                parameters_counted=counted,
                position=position,
                value=value,
            )
        )
    return pairs


def _canons(phrases: Sequence[Phrase]) -> list[str]:
    return [phrase.canon for phrase in phrases if phrase.words]


def _similarities(kind: Literal["objects", "words"], rows: Sequence[Sides]) -> list[Similarity]:
    columns, symbols = _columns(rows)
    values = np.zeros(len(rows))
    ious(values, *columns, symbols)
    similarities = []
    for sides, value in zip(rows, values.tolist(), strict=True):
        mine, theirs = map(dict.fromkeys, sides)
        similarities.append(
            Similarity(
                value=value,
                compared=kind if mine or theirs else "nothing",
                shared=[string for string in theirs if string in mine],
                missing=[string for string in theirs if string not in mine],
                extra=[string for string in mine if string not in theirs],
            )
        )
    return similarities

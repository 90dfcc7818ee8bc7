"""The steps side by side, and the arithmetic of the reward."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from ...kernels.rules import MIN_OBJECT_SIMILARITY, PARAMETER_WEIGHT, STEP_GAP_DENOMINATOR, STEP_GAP_NUMERATOR, Rules
from ...kernels.semantics import UNMATCHED, anchors, ious, length_penalty, position_factor, step_gap
from ...kernels.sequences import lcs_lengths, subsequences
from ..settings import MAX_CONTENT, ScoreSettings
from ..wording import format_number, format_reward, plural
from .quantities import compared_quantities, read_terms
from .reading import Reading, Term, words_of
from .schema import EQUAL, Content, Equation, Factor, FactorName, Order, Pair, Phrase, Scale, Similarity

Sides = tuple[Sequence[Term], Sequence[Term]]


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
    numbers: dict[Term, int] = {}
    columns = []
    for side in (0, 1):
        values = [numbers.setdefault(element, len(numbers)) for row in rows for element in row[side]]
        columns.append(np.array(values, np.int64))
        columns.append(np.cumsum([0, *(len(row[side]) for row in rows)], dtype=np.int64))
    for column in columns:
        column.setflags(write=False)
    return columns, max(1, len(numbers))


def _order(
    actions: tuple[list[str], list[str]],
    columns: Sequence[np.ndarray],
    symbols: int,
    positions: Sequence[int],
    settings: ScoreSettings,
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
    terms = None
    if settings.reads_quantities:
        read_terms(reading)
        read_terms(expected)
        terms = [(list(chain(*(a.terms or ()))), list(chain(*(b.terms or ())))) for a, b in lines]
    if terms is not None and settings.parameter_similarity == "quantities":
        parameters = _similarities("terms", terms)
    else:
        parameters = _similarities("words", [(words_of(a.parameters), words_of(b.parameters)) for a, b in lines])
    pairs = []
    for k, ((i, j), (line, _), obj, by_words, par) in enumerate(
        zip(anchored, lines, objects, words, parameters, strict=True)
    ):
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
                quantities=compared_quantities(*terms[k]) if terms is not None else None,
                position=position,
                value=value,
            )
        )
    return pairs


def _canons(phrases: Sequence[Phrase]) -> list[str]:
    return [phrase.canon for phrase in phrases if phrase.words]


def _similarities(kind: Literal["objects", "words", "terms"], rows: Sequence[Sides]) -> list[Similarity]:
    columns, symbols = _columns(rows)
    values = np.zeros(len(rows))
    ious(values, *columns, symbols)
    similarities = []
    for sides, value in zip(rows, values.tolist(), strict=True):
        texts: dict[Term, dict[str, None]] = defaultdict(dict)  # of equal terms, all of them
        for element in chain(*sides):
            texts[element][str(element)] = None
        mine, theirs = map(dict.fromkeys, sides)
        similarities.append(
            Similarity(
                value=value,
                compared=kind if mine or theirs else "nothing",
                shared=[EQUAL.join(texts[element]) for element in theirs if element in mine],
                missing=[EQUAL.join(texts[element]) for element in theirs if element not in mine],
                extra=[EQUAL.join(texts[element]) for element in mine if element not in theirs],
            )
        )
    return similarities


LABELS: dict[FactorName, str] = {
    "best": "Best possible",
    "gate": "Gate failed",
    "order": "Order of actions",
    "unmatched": "Unmatched steps",
    "objects": "Objects",
    "parameters": "Parameters",
    "position": "Position",
    "step_gap": "Number of steps",
    "length": "Length of prose",
    "quantities": "Wrong quantities",
    "score": "Reward",
}


def combined(scale: float, order: float, content: float, settings: ScoreSettings) -> float:
    semantics = content
    if settings.use_order:
        semantics = order * content if settings.semantics == "product" else order + content
    return scale + semantics if settings.total == "sum" else scale * semantics


def factors_of(
    counted: Alignment | None, reason: str, score: float, settings: ScoreSettings, reward_of: Callable[[float], float]
) -> list[Factor]:
    states: list[tuple[FactorName, float, str]] = [
        ("best", settings.largest_score, f"SCORE {format_number(settings.largest_score)}"),
        *([("gate", score, reason)] if counted is None else _states(counted, settings)),
        ("score", score, f"SCORE {format_reward(score)}"),
    ]
    previous = [0.0, *(after for _, after, _ in states[:-2]), score]
    return [
        Factor(
            name=name,
            label=LABELS[name],
            reward_change=reward_of(after) - reward_of(before),
            reward=reward_of(after),
            change=after - before,
            score=after,
            detail=detail,
        )
        for before, (name, after, detail) in zip(previous, states, strict=True)
    ]


def _states(counted: Alignment, settings: ScoreSettings) -> list[tuple[FactorName, float, str]]:
    """Return (part, score, detail) of each part: the score with the parts up to this one real and the rest perfect."""
    scale, order, pairs, content = counted.scale, counted.order, counted.pairs, counted.content
    assert scale is not None
    states: list[tuple[FactorName, float, str]] = []

    def state(name: FactorName, factor: float, content: float, detail: str) -> None:
        states.append((name, combined(factor, order.value, content, settings), detail))

    def mean(values: Sequence[float]) -> float:
        return math.fsum(values) / content.denominator if values else 0.0

    if settings.use_order:
        state("order", 1.0, MAX_CONTENT, _order_detail(order))
    if settings.content_denominator == "max_len" or not pairs:
        state("unmatched", 1.0, mean([MAX_CONTENT] * len(pairs)), _unmatched_detail(content))
    objects = [pair.objects.value + PARAMETER_WEIGHT * pair.parameters_counted for pair in pairs]
    state("objects", 1.0, mean(objects), _agreement(sum(pair.objects.value < 1 for pair in pairs), len(pairs)))
    similar = [pair.objects.value + PARAMETER_WEIGHT * pair.parameters.value for pair in pairs]
    state("parameters", 1.0, mean(similar), _parameters_detail(pairs))
    if settings.use_position:
        state("position", 1.0, content.value, _position_detail(pairs))
    if settings.use_step_gap:
        theirs = f"the reference has {scale.reference_steps:,}" if scale.gap else "as in the reference"
        state("step_gap", scale.step_gap, content.value, f"{plural(scale.predicted_steps, 'step')}, {theirs}")
    if settings.use_length:
        limit = f"no penalty up to {format_number(scale.max_mean_words)}"
        detail = f"{format_number(scale.mean_words)} words per step, {limit}"
        state("length", scale.value, content.value, detail)
    if settings.quantity_error_factor < 1.0:
        errors = errors_of(pairs)
        detail = f"{named_errors(errors)}, {format_number(settings.quantity_error_factor)} for each"
        states.append(
            ("quantities", penalized(states[-1][1], errors, settings), detail if errors else "no wrong quantity")
        )
    return states


def errors_of(pairs: Sequence[Pair]) -> int:
    return sum(pair.quantities.errors for pair in pairs if pair.quantities is not None)


def named_errors(errors: int) -> str:
    return "1 wrong quantity" if errors == 1 else f"{errors:,} wrong quantities"


def penalized(score: float, errors: int, settings: ScoreSettings) -> float:
    return score * settings.quantity_error_factor**errors if errors else score


def _order_detail(order: Order) -> str:
    if order.mode == "lcs":
        return f"{order.lcs:,} of the reference's {plural(len(order.expected), 'action')} in its order"
    return f"the actions are {'' if order.subsequence else 'not '}in the reference's order"


def _unmatched_detail(content: Content) -> str:
    mine, theirs = len(content.unmatched_predicted), len(content.unmatched_reference)
    if not mine and not theirs:
        return "every step is matched"
    return f"{plural(mine, 'step')} of the response and {theirs:,} of the reference unmatched"


def _parameters_detail(pairs: Sequence[Pair]) -> str:
    counted = [pair for pair in pairs if pair.parameters_counted]
    detail = _agreement(sum(pair.parameters.value < 1 for pair in counted), len(counted))
    return detail if len(counted) == len(pairs) else f"{detail}; {len(pairs) - len(counted):,} not counted"


def _agreement(different: int, pairs: int) -> str:
    if not pairs:
        return "no matched step"
    if not different:
        return "the matched step agrees" if pairs == 1 else f"all {pairs:,} matched steps agree"
    return f"{different:,} of {plural(pairs, 'matched step')} {'differs' if different == 1 else 'differ'}"


def _position_detail(pairs: Sequence[Pair]) -> str:
    moved = sum(pair.position < 1 for pair in pairs)
    if not moved:
        return "every matched step at the reference's position" if pairs else "no matched step"
    return f"{moved:,} of {plural(len(pairs), 'matched step')} not at the reference's position"


def equations_of(
    counted: Alignment | None, components: dict[str, float], reward: float, settings: ScoreSettings
) -> list[Equation]:
    shown = {name: format_reward(value) for name, value in components.items()}
    sides: dict[str, tuple[str, ...]] = {"score": ("gates · scale · semantics",)}
    if counted is not None:
        symbol = "+" if settings.total == "sum" else "·"
        sides = _parts(counted, shown, settings)
        symbols, numbers = f"scale {symbol} semantics", f"{shown['scale']} {symbol} {shown['semantics']}"
        if settings.quantity_error_factor < 1.0:
            symbols, numbers = (f"({text})" if symbol == "+" else text for text in (symbols, numbers))
            symbols += " · q^E"
            numbers += f" · {format_number(settings.quantity_error_factor)}^{components['quantity_errors']:.0f}"
        sides["score"] = symbols, numbers
    largest = format_number(settings.largest_score)
    mapped = {
        "unit": ("score / S", f"{shown['score']} / {largest}"),
        "raw": ("score",),
        "double": ("2 · score", f"2 · {shown['score']}"),
        "shift": ("score − S / 2", f"{shown['score']} − {largest} / 2"),
    }
    sides["reward"] = mapped[settings.reward_scale]
    values = components | {"reward": reward}
    return [
        Equation(name=name, text=EQUAL.join([name, *parts, format_reward(values[name])]), value=values[name])
        for name, parts in sides.items()
    ]


def _parts(counted: Alignment, shown: dict[str, str], settings: ScoreSettings) -> dict[str, tuple[str, ...]]:
    assert counted.scale is not None
    scale, order, content = counted.scale, counted.order, counted.content
    f, g = format_reward(scale.step_gap), format_reward(scale.length_penalty)
    sides: dict[str, tuple[str, ...]] = {
        "scale": (
            f"{'f' if settings.use_step_gap else '1'} / {'g' if settings.use_length else '1'}",
            f"{f if settings.use_step_gap else '1'} / {g if settings.use_length else '1'}",
        ),
        "order": (f"[the actions are in the reference's order: {'yes' if order.subsequence else 'no'}]",),
        "content": ("no step has a partner",),
        "semantics": ("content",),
    }
    if order.mode == "lcs":
        sides["order"] = ("LCS / m", f"{order.lcs} / {len(order.expected)}")
    if content.anchors:
        divisor = "|W|" if settings.content_denominator == "matched" else "max(n, m)"
        numbers = f"{format_reward(content.sum)} / {content.denominator}"
        sides["content"] = (f"Σ m (Obj + ½ Par) / {divisor}", numbers)
    if settings.use_order:
        symbol = "·" if settings.semantics == "product" else "+"
        sides["semantics"] = (f"order {symbol} content", f"{shown['order']} {symbol} {shown['content']}")
    return sides

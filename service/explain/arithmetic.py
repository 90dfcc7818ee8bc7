"""The arithmetic of a score: the waterfall from the maximum down to this score, and the equations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...kernels.rules import PARAMETER_WEIGHT
from ..settings import MAX_CONTENT, ScoreSettings
from ..wording import format_number, format_reward, plural
from .alignment import Alignment
from .schema import Content, Equation, Factor, FactorName, Order, Pair

__all__ = ["combined", "equations_of", "factors_of"]

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
    return states


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
        sides["score"] = (f"scale {symbol} semantics", f"{shown['scale']} {symbol} {shown['semantics']}")
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
        Equation(name=name, text=" = ".join([name, *parts, format_reward(values[name])]), value=values[name])
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

"""How the parts make the score: the waterfall from the maximum down to this score, and the equations."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels.rules import PARAMETER_WEIGHT
from ..settings import MAX_CONTENT, ScoreSettings
from .alignment import Alignment
from .numbers import format_number, plural
from .schema import Equation, Factor, Pair

__all__ = ["combined", "equations_of", "factors_of"]

LABELS = {
    "best": "Best possible",
    "gate": "Gate closed",
    "order": "Order of actions",
    "unmatched": "Unmatched steps",
    "objects": "Objects",
    "parameters": "Parameters",
    "position": "Position",
    "step_gap": "Number of steps",
    "length": "Length of prose",
    "score": "SCORE",
}


def combined(scale: float, order: float, content: float, settings: ScoreSettings) -> float:
    """Return the SCORE of a response that passes the gates (SCORE.md section 6)."""
    semantics = content
    if settings.use_order:
        semantics = order * content if settings.semantics == "product" else order + content
    return scale + semantics if settings.total == "sum" else scale * semantics


def factors_of(found: Alignment | None, reason: str, score: float, settings: ScoreSettings) -> list[Factor]:
    """Return what each part takes away, one after another; `found` counts only if the reason is `ok`."""
    best = settings.largest_score
    factors = [_factor("best", 0.0, best, "the largest SCORE of these settings")]
    if reason != "ok" or found is None or found.scale is None:
        factors.append(_factor("gate", best, score, reason))
    else:
        before = best
        for name, after, detail in _states(found, settings):
            factors.append(_factor(name, before, after, detail))
            before = after
    factors.append(_factor("score", score, score, "before it is mapped to the reward"))
    return factors


def _factor(name: str, before: float, after: float, detail: str) -> Factor:
    fields = {"name": name, "label": LABELS[name], "change": after - before, "score": after, "detail": detail}
    return Factor.model_validate(fields)


def _states(found: Alignment, settings: ScoreSettings) -> list[tuple[str, float, str]]:
    """Return (part, score, detail) of each part: the score with the parts up to this one real and the rest perfect."""
    scale, order, pairs, content = found.scale, found.order, found.pairs, found.content
    assert scale is not None
    states: list[tuple[str, float, str]] = []

    def state(name: str, factor: float, content: float, detail: str) -> None:
        states.append((name, combined(factor, order.value, content, settings), detail))

    def mean(values: Sequence[float]) -> float:
        return sum(values) / content.denominator if values else 0.0

    if settings.use_order:
        state("order", 1.0, MAX_CONTENT, _order_detail(found))
    if settings.content_denominator == "max_len" or not pairs:
        state("unmatched", 1.0, mean([MAX_CONTENT] * len(pairs)), _unmatched_detail(found))
    objects = [pair.objects.value + PARAMETER_WEIGHT * pair.parameters_counted for pair in pairs]
    state("objects", 1.0, mean(objects), _different(pairs, "objects"))
    similar = [pair.objects.value + PARAMETER_WEIGHT * pair.parameters.value for pair in pairs]
    state("parameters", 1.0, mean(similar), _different(pairs, "parameters"))
    if settings.use_position:
        moved = sum(pair.position < 1 for pair in pairs)
        state(
            "position", 1.0, content.value, f"{plural(moved, 'step')} of {len(pairs)} away from the reference's place"
        )
    if settings.use_step_gap:
        counts = f"{plural(scale.predicted_steps, 'step')}, the reference has {scale.reference_steps:,}"
        state("step_gap", scale.step_gap, content.value, counts)
    if settings.use_length:
        detail = f"{format_number(scale.mean_words)} words a step, free up to {format_number(scale.max_mean_words)}"
        state("length", scale.value, content.value, detail)
    return states


def _order_detail(found: Alignment) -> str:
    order = found.order
    if order.mode == "lcs":
        return f"{plural(order.lcs, 'action')} of the reference's {len(order.expected):,} in its order"
    return "one sequence is part of the other" if order.subsequence else "neither sequence is part of the other"


def _unmatched_detail(found: Alignment) -> str:
    mine, theirs = len(found.content.unmatched_predicted), len(found.content.unmatched_reference)
    return f"{plural(mine, 'step')} of the prediction and {theirs:,} of the reference without a partner"


def _different(pairs: Sequence[Pair], kind: str) -> str:
    different = sum(getattr(pair, kind).value < 1 for pair in pairs)
    return f"{plural(different, 'pair')} of {len(pairs):,} with different {kind}"


def equations_of(
    found: Alignment | None, counted: bool, components: dict[str, float], reward: float, settings: ScoreSettings
) -> list[Equation]:
    """Return the arithmetic with symbols and numbers; if a gate failed, only the lines of score and reward."""
    score = components["score"]
    equations = []

    def line(name: str, value: float, *sides: str) -> None:
        equations.append(Equation(name=name, text=" = ".join([name, *sides, format_number(value)]), value=value))

    if not counted or found is None:
        line("score", score, "gates · scale · semantics")
    else:
        _parts(line, found, components, settings)
        symbol = "+" if settings.total == "sum" else "·"
        numbers = f"{format_number(components['scale'])} {symbol} {format_number(components['semantics'])}"
        line("score", score, f"scale {symbol} semantics", numbers)
    largest = format_number(settings.largest_score)
    mapped = {
        "unit": ("score / S", f"{format_number(score)} / {largest}"),
        "raw": ("score",),
        "double": ("2 · score", f"2 · {format_number(score)}"),
        "shift": ("score − S / 2", f"{format_number(score)} − {largest} / 2"),
    }
    line("reward", reward, *mapped[settings.reward_scale])
    return equations


def _parts(line: object, found: Alignment, components: dict[str, float], settings: ScoreSettings) -> None:
    assert callable(line)
    assert found.scale is not None
    scale, content = found.scale, found.content
    f, g = format_number(scale.step_gap), format_number(scale.length_penalty)
    symbols = f"{'f' if settings.use_step_gap else '1'} / {'g' if settings.use_length else '1'}"
    numbers = f"{f if settings.use_step_gap else '1'} / {g if settings.use_length else '1'}"
    line("scale", components["scale"], symbols, numbers)
    if found.order.mode == "lcs":
        line("order", components["order"], "LCS / m", f"{found.order.lcs} / {len(found.order.expected)}")
    else:
        holds = "yes" if found.order.subsequence else "no"
        line("order", components["order"], f"[one sequence is part of the other: {holds}]")
    if content.anchors:
        divisor = "|W|" if settings.content_denominator == "matched" else "max(n, m)"
        sides = (f"Σ m (Obj + ½ Par) / {divisor}", f"{format_number(content.sum)} / {content.denominator}")
        line("content", components["content"], *sides)
    else:
        line("content", components["content"], "no step has a partner")
    if settings.use_order:
        symbol = "·" if settings.semantics == "product" else "+"
        numbers = f"{format_number(components['order'])} {symbol} {format_number(components['content'])}"
        line("semantics", components["semantics"], f"order {symbol} content", numbers)
    else:
        line("semantics", components["semantics"], "content")

"""The explanation of one response: its derivation, and what would change its reward most.

The derivation is checked against the kernels: it recomputes to the same bits, or fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...kernels.score import TIE, reward_of
from ..errors import AssayError
from ..rewards.scorer import Scorer
from ..scoring.configurations import rules_of
from ..scoring.references import MAX_REFERENCE_BYTES
from ..settings import ScoreSettings
from ..wording import format_reward, format_reward_change, plural
from .alignment import (
    Alignment,
    align,
    combined,
    equations_of,
    errors_of,
    factors_of,
    formula,
    named_errors,
    penalized,
)
from .case import Case, case_of
from .hints import hints_of
from .prose import added_in, coverages, marks_of
from .reading import Reading
from .schema import (
    MAX_SUGGESTED,
    AlternativeReward,
    ComponentValues,
    Coverage,
    Explanation,
    Factor,
    KeyStep,
    ProseStep,
    Sections,
)
from .suggestions import search
from .verdict import AddedBySteps, checks_of, failure_of, most_words, total_numbers


class DerivationError(AssayError):
    """A derivation differs from the kernels' numbers: a fault of Assay, never of its input."""


def explain(
    scorer: Scorer,
    response: str,
    reference: str | Mapping[str, Any],
    suggestions: int = MAX_SUGGESTED,
    max_reference_bytes: int = MAX_REFERENCE_BYTES,
) -> Explanation:
    """Derive the reward of one response, and suggest changes that would raise it.

    Parameters
    ----------
    scorer : Scorer
        The configuration to explain.
    response : str
        A response of any content.
    reference : str or mapping
        As for `Scorer.score`.
    suggestions : int, optional
        Maximum number of suggestions.
    max_reference_bytes : int, optional
        Maximum size of the reference in bytes of UTF-8.

    Returns
    -------
    Explanation
        The reply of ``POST /v1/explain``.

    Raises
    ------
    InvalidReference
        The reference cannot be parsed; its issue is at `reference`.
    InvalidRequest
        The response or the reference is too long to be explained.
    """
    case = case_of(scorer, response, reference, max_reference_bytes)
    explanation = _derive(case)
    suggested = search(case, explanation, suggestions)
    return explanation.model_copy(update=suggested._asdict())


def _derive(case: Case) -> Explanation:
    settings, reading, expected = case.settings, case.reading, case.expected
    measured = coverages(reading, settings) if reading is not None else []
    added = added_in(reading, settings) if reading is not None else []
    alignment = None
    if reading is not None and reading.valid and case.reason != "too_long":
        alignment = align(reading, expected, settings, rules_of(settings))
    pairs = alignment.pairs if alignment is not None else []
    counted = alignment if case.reason == "ok" else None
    _verify(case, counted, measured, added)
    factors = factors_of(counted, case.reason, case.components["score"], settings, partial(_mapped, settings=settings))
    smallest, largest = smallest_and_largest(settings)
    failure = failure_of(case.reason, reading, measured, added, settings)
    partners = {pair.predicted: pair.reference for pair in pairs}
    values = {pair.predicted: pair.value for pair in pairs} if counted is not None else None
    return Explanation(
        reward=case.reward,
        score=case.components["score"],
        reason=case.reason,
        outcome=_outcome(case.reason, factors, counted),
        headline=_headline(case, factors, failure.message if failure is not None else ""),
        components=ComponentValues(**case.components),
        config=settings,
        config_id=case.scorer.config_id,
        signature=case.scorer.signature,
        largest_score=settings.largest_score,
        smallest_reward=smallest,
        largest_reward=largest,
        alternative=case.alternative,
        alternatives=_alternatives(case),
        added_numbers=None if settings.max_added_numbers is None else total_numbers(added),
        added_words=None if settings.max_added_words is None else most_words(added),
        failure=failure,
        checks=checks_of(case.reason, reading, case.components["coverage"], added, settings),
        sections=_sections(reading),
        prediction=_key_steps(reading, measured, partners, values) if reading is not None else [],
        reference=_key_steps(
            expected,
            [None] * len(expected.lines),
            {pair.reference: pair.predicted for pair in pairs},
            as_steps=case.as_steps,
        ),
        prose=_prose_steps(reading, added, settings) if reading is not None else [],
        counted=counted is not None,
        scale=alignment.scale if alignment is not None else None,
        order=alignment.order if alignment is not None else None,
        pairs=pairs,
        content=alignment.content if alignment is not None else None,
        factors=factors,
        equations=equations_of(counted, case.components, case.reward, settings),
        hints=hints_of(reading, expected, pairs, measured, settings) if reading is not None else [],
        suggestions=[],
        tried=0,
        exhaustive=None,
    )


def _alternatives(case: Case) -> list[AlternativeReward]:
    if case.references.alternatives is None:
        return []
    return [
        AlternativeReward(reward=r, steps=m) for r, m in zip(case.alternative_rewards, case.step_counts, strict=True)
    ]


def smallest_and_largest(settings: ScoreSettings) -> tuple[float, float]:
    return _mapped(0.0, settings), _mapped(settings.largest_score, settings)


def _mapped(score: float, settings: ScoreSettings) -> float:
    return float(formula(reward_of)(score, rules_of(settings)))


def _verify(case: Case, counted: Alignment | None, step_coverages: list[Coverage | None], added: AddedBySteps) -> None:
    derived: dict[str, float] = {}
    settings, score = case.settings, 0.0
    off = []
    if case.steps:
        if _steps_of(case, counted, step_coverages) != case.steps:
            off.append("steps")
        values = [coverage for coverage in step_coverages if coverage is not None]
        derived["coverage"] = min(coverage.value for coverage in values)
        if any(coverage.covered / coverage.total != coverage.value for coverage in values):
            raise DerivationError("words and coverage of a step do not agree")
    if counted is not None:
        assert counted.scale is not None
        scale, order, content = counted.scale, counted.order, counted.content
        semantics = combined(0.0, order.value, content.value, settings.model_copy(update={"total": "sum"}))
        derived |= {
            "step_gap": scale.step_gap,
            "mean_words": scale.mean_words,
            "scale": scale.value,
            "order": order.value,
            "content": content.value,
            "anchors": float(content.anchors),
            "semantics": semantics,
        }
        errors = errors_of(counted.pairs) if settings.quantity_error_factor < 1.0 else 0
        derived["quantity_errors"] = float(errors)
        score = penalized(combined(scale.value, order.value, content.value, settings), errors, settings)
    derived["score"] = score
    off += [name for name, value in derived.items() if value != case.components[name]]
    limit, numbers = settings.max_added_numbers, case.reason == "added_numbers"
    if limit is not None and case.reason in ("ok", "added_numbers", "added_words"):
        off += ["added_numbers"] * ((total_numbers(added) > limit) != numbers)
    if case.reason in ("ok", "added_words"):
        fails = any(own.fails(settings.max_added_words) for own in added if own is not None)
        off += ["added_words"] * (fails != (case.reason == "added_words"))
    rewards = case.alternative_rewards
    if case.alternative != next(k for k, reward in enumerate(rewards) if max(rewards) - reward <= TIE):
        off.append("alternative")
    if _mapped(score, settings) != case.reward:
        off.append("reward")
    if off:
        raise DerivationError(f"the derivation disagrees with the scorer in: {', '.join(off)}")


def _steps_of(case: Case, counted: Alignment | None, step_coverages: list[Coverage | None]) -> list[dict[str, Any]]:
    """Return the response's entry of the column of steps, with the ends of the prose that the column has."""
    reading = case.reading
    assert reading is not None
    pairs = {pair.predicted: pair for pair in counted.pairs} if counted is not None else {}
    steps = []
    for k, (line, coverage, step) in enumerate(zip(reading.lines, step_coverages, case.steps, strict=True), 1):
        start, end = reading.text.place(line.start, line.stop).characters
        steps.append(
            step
            | {"start": start, "end": end, "coverage": coverage.value if coverage is not None else 0.0}
            | {
                "reference": pairs[k].reference - 1 if k in pairs else -1,
                "value": pairs[k].value if k in pairs else 0.0,
            }
        )
    return steps


def _headline(case: Case, factors: list[Factor], message: str) -> str:
    largest = format_reward(_mapped(case.settings.largest_score, case.settings))
    head = f"Reward {format_reward(case.reward)} of at most {largest}"
    if case.references.alternatives is not None:
        head += f" (alternative {case.alternative + 1} of {len(case.alternative_rewards)})"
    if case.reason != "ok":
        return f"{head}: {message}"
    losses = _losses(factors)
    if not losses:
        return f"{head}: no deductions."
    parts = [f"{loss.label.lower()} {format_reward_change(loss.reward_change)} ({loss.detail})" for loss in losses[:3]]
    return f"{head}: {'; '.join(parts)}."


def _losses(factors: list[Factor]) -> list[Factor]:
    """Return what costs something, the most first."""
    losses = (factor for factor in factors if factor.name != "best" and factor.reward_change < 0)
    return sorted(losses, key=lambda factor: factor.reward_change)


def _outcome(reason: str, factors: list[Factor], counted: Alignment | None) -> str:
    """Return the reason and, if both gates pass, what costs most in a few words."""
    losses = _losses(factors)
    if reason != "ok" or counted is None or counted.scale is None or not losses:
        return reason
    largest, scale = losses[0].name, counted.scale
    if largest == "step_gap" and scale.predicted_steps > scale.reference_steps:
        return f"{reason}: {plural(scale.predicted_steps, 'step')} instead of {scale.reference_steps:,}"
    if largest == "step_gap":
        return f"{reason}: {scale.predicted_steps:,} of {plural(scale.reference_steps, 'step')}"
    if largest == "unmatched":
        return f"{reason}: {len(counted.pairs):,} of {plural(scale.reference_steps, 'step')} matched"
    if largest == "quantities":
        return f"{reason}: {named_errors(errors_of(counted.pairs))}"
    if largest == "length":
        return f"{reason}: {scale.mean_words:.0f} words per step"
    return f"{reason}: {losses[0].label.lower()}"


def _sections(reading: Reading | None) -> Sections:
    think, key, orc, note = (
        [None] * 4
        if reading is None
        else [reading.text.place(start, stop) if start >= 0 and stop >= 0 else None for start, stop in reading.sections]
    )
    return Sections(found=None not in (think, key, orc, note), think=think, key=key, orc=orc, note=note)


def _key_steps(
    reading: Reading,
    step_coverages: list[Coverage | None],
    partners: dict[int, int],
    values: dict[int, float] | None = None,
    as_steps: bool = False,
) -> list[KeyStep]:
    return [
        KeyStep(
            step=k,
            number=line.number,
            status=line.status,
            place=None if as_steps else reading.text.place(line.start, line.stop),
            text=reading.text.part(line.start, line.stop),
            action=line.action if line.status == "ok" else None,
            objects=line.objects,
            parameters=line.parameters,
            coverage=coverage,
            partner=partners.get(k),
            value=None if values is None else values.get(k, 0.0),
        )
        for k, (line, coverage) in enumerate(zip(reading.lines, step_coverages, strict=True), 1)
    ]


def _prose_steps(reading: Reading, added: AddedBySteps, settings: ScoreSettings) -> list[ProseStep]:
    marked = marks_of(reading, added, settings)
    return [
        ProseStep(
            step=k,
            number=prose.number,
            place=reading.text.place(prose.start, prose.stop),
            text=reading.text.part(prose.start, prose.stop),
            pieces=prose.pieces,
            marks=marks.covered,
            added_numbers=own.numbers if own is not None else None,
            added_words=own.words if own is not None else None,
            negations=own.negations if own is not None and own.words is not None else None,
            added_marks=marks.added,
        )
        for k, (prose, marks, own) in enumerate(zip(reading.prose, marked, added, strict=True), 1)
    ]

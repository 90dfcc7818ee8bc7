"""The complete derivation of one reward, checked against the kernels: it recomputes to the same bits, or fails."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...kernels.column import column_of
from ...kernels.reading.references import References
from ...kernels.score import reward_of
from ..errors import AssayError, InvalidReference, InvalidRequest, Issue
from ..scoring.references import MAX_REFERENCE_BYTES, parse_references
from ..scoring.scorer import Scorer, rules_of
from ..scoring.text_columns import references_as_column, utf8
from ..settings import ScoreSettings
from .alignment import Alignment, align, formula
from .arithmetic import combined, equations_of, factors_of
from .coverage import coverages, marks_of
from .numbers import format_delta, format_number
from .reading import MAX_STEPS, Line, Reading, read_reference, read_response
from .schema import (
    ComponentValues,
    Coverage,
    Explanation,
    Factor,
    KeyStep,
    Phrase,
    Place,
    ProseStep,
    Sections,
)
from .text import Text
from .verdict import checks_of, failure_of

__all__ = ["MAX_BYTES", "Case", "DerivationError", "case_of", "derive", "smallest_and_largest"]

MAX_BYTES = 1 << 19
"""Longest response that is explained; one that is too long for the reward is not read at all."""


class DerivationError(AssayError):
    """A derivation differs from the kernels' numbers: a fault of Assay, never of its input."""


class Case(NamedTuple):
    """One response with its reference, scored."""

    scorer: Scorer
    response: bytes
    expected: Text
    references: References
    as_steps: bool
    reward: float
    reason: str
    components: dict[str, float]

    @property
    def settings(self) -> ScoreSettings:
        return self.scorer.settings

    def rescored(self, responses: list[bytes]) -> Any:
        """Score other responses against the same reference."""
        index = np.zeros(len(responses), np.int64)
        return self.scorer.score_parsed(column_of(responses), self.references, index)

    def reason_of(self, response: bytes) -> str:
        """Return the reason of another response."""
        return str(self.rescored([response]).reasons[0])


def case_of(
    scorer: Scorer, response: str, reference: str | Mapping[str, Any], max_reference_bytes: int = MAX_REFERENCE_BYTES
) -> Case:
    """Score one response.

    Raises InvalidReference (its issue at `reference`), and InvalidRequest for a response or reference that is too long
    to be explained, though not too long for its reward.
    """
    if not isinstance(response, str):
        raise InvalidRequest([Issue("response", "wrong_type", "a string is needed")])
    expected, malformed = references_as_column([reference])
    if malformed:
        raise InvalidReference([issue._replace(path="reference") for issue in malformed])
    try:
        references = parse_references(expected, scorer.settings.max_steps, max_reference_bytes)
    except InvalidReference as error:
        raise InvalidReference([issue._replace(path="reference") for issue in error.issues]) from None
    content = utf8(response)
    scores = scorer.score_parsed(column_of([content]), references, np.zeros(1, np.int64))
    case = Case(
        scorer=scorer,
        response=content,
        expected=Text(expected.data.tobytes()),
        references=references,
        as_steps=not isinstance(reference, str),
        reward=float(scores.rewards[0]),
        reason=str(scores.reasons[0]),
        components={name: float(column[0]) for name, column in scores.components.items()},
    )
    _check_size(case)
    return case


def _check_size(case: Case) -> None:
    issues = []
    if len(case.expected.content) > MAX_BYTES or case.references.step_counts[0] > MAX_STEPS:
        issues.append(_too_large("reference"))
    if MAX_BYTES < len(case.response) <= case.settings.max_response_bytes:
        issues.append(_too_large("response"))
    if issues:
        raise InvalidRequest(issues)


def _too_large(path: str) -> Issue:
    detail = f"an explanation goes up to {MAX_BYTES} bytes and {MAX_STEPS} steps"
    return Issue(path, "too_long", detail)


def derive(case: Case) -> Explanation:
    """Derive everything but the suggestions.

    Raises InvalidRequest for a response of too many steps, and DerivationError if a derived number differs from the
    kernels'.
    """
    settings = case.settings
    too_long = len(case.response) > settings.max_response_bytes
    reading = None if too_long else _reading(case)
    expected = read_reference(case.expected)
    found = coverages(reading, settings.min_coverage) if reading is not None else []
    alignment = _alignment(case, reading, expected)
    counted = case.reason == "ok"
    _verify(case, alignment, found)
    factors = factors_of(alignment, case.reason, case.components["score"], settings)
    pairs = alignment.pairs if alignment is not None else []
    smallest, largest = smallest_and_largest(settings)
    failure = failure_of(case.reason, reading, found, settings)
    return Explanation(
        reward=case.reward,
        score=case.components["score"],
        reason=case.reason,
        headline=_headline(case, factors, failure.message if failure is not None else ""),
        components=ComponentValues(**case.components),
        config=settings,
        config_id=case.scorer.config_id,
        largest_score=settings.largest_score,
        smallest_reward=smallest,
        largest_reward=largest,
        failure=failure,
        checks=checks_of(case.reason, reading, case.components["coverage"], settings),
        sections=_sections(reading),
        prediction=_key_steps(reading, found, {pair.predicted: pair.reference for pair in pairs}) if reading else [],
        reference=_key_steps(
            expected, [None] * len(expected.lines), {pair.reference: pair.predicted for pair in pairs}, case.as_steps
        ),
        prose=_prose_steps(reading),
        counted=counted,
        scale=alignment.scale if alignment is not None else None,
        order=alignment.order if alignment is not None else None,
        pairs=pairs,
        content=alignment.content if alignment is not None else None,
        factors=factors,
        equations=equations_of(alignment, counted, case.components, case.reward, settings),
        suggestions=[],
    )


def _reading(case: Case) -> Reading:
    """Read the parts of the response; raises InvalidRequest if it has more steps than are explained."""
    text = Text(case.response)
    reading = read_response(text, case.settings.think_prefilled or case.reason == "think_not_opened")
    if case.reason != "too_long" and reading.whole == 4 and max(reading.key_lines, reading.prose_steps) > MAX_STEPS:
        raise InvalidRequest([_too_large("response")])  # only if max_steps is set above what is explained
    return reading


def _alignment(case: Case, reading: Reading | None, expected: Reading) -> Alignment | None:
    """Align the valid steps with the reference; None without any."""
    if reading is None or not reading.valid or case.reason == "too_long":
        return None
    positions = [k for k, line in enumerate(reading.lines, 1) if line.status == "ok"]
    pieces = [prose.pieces for prose in reading.prose]
    return align(reading.valid, positions, expected.lines, pieces, case.settings, rules_of(case.settings))


def smallest_and_largest(settings: ScoreSettings) -> tuple[float, float]:
    """Return the rewards of SCORE 0 and of the maximum SCORE."""
    return _mapped(0.0, settings), _mapped(settings.largest_score, settings)


def _mapped(score: float, settings: ScoreSettings) -> float:
    return float(formula(reward_of)(score, rules_of(settings)))


def _verify(case: Case, alignment: Alignment | None, found: list[Coverage | None]) -> None:
    """Compare every derived number with the kernels', bit for bit."""
    derived: dict[str, float] = {}
    settings = case.settings
    if case.reason in ("ok", "low_coverage"):
        values = [coverage for coverage in found if coverage is not None]
        derived["coverage"] = min(coverage.value for coverage in values)
        if any(coverage.covered / coverage.total != coverage.value for coverage in values):
            raise DerivationError("words and coverage of a step do not agree")
    if case.reason == "ok":
        assert alignment is not None
        assert alignment.scale is not None
        scale, order, content = alignment.scale, alignment.order, alignment.content
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
        score = combined(scale.value, order.value, content.value, settings)
    else:
        score = 0.0
    derived["score"] = score
    off = [name for name, value in derived.items() if value != case.components[name]]
    if _mapped(score, settings) != case.reward:
        off.append("reward")
    if off:
        raise DerivationError(f"the derivation does not come to: {', '.join(off)}")


def _headline(case: Case, factors: list[Factor], message: str) -> str:
    largest = format_number(_mapped(case.settings.largest_score, case.settings))
    head = f"Reward {format_number(case.reward)} of at most {largest}"
    if case.reason != "ok":
        return f"{head}: {message}"
    span = _mapped(1.0, case.settings) - _mapped(0.0, case.settings)
    losses = sorted((f for f in factors if f.name != "best" and f.change < 0), key=lambda factor: factor.change)
    if not losses:
        return f"{head}: nothing is taken away."
    parts = [f"{factor.label.lower()} {format_delta(span * factor.change)} ({factor.detail})" for factor in losses[:3]]
    return f"{head}: {'; '.join(parts)}."


def _sections(reading: Reading | None) -> Sections:
    places: list[Place | None] = [None] * 4
    if reading is not None:
        places = [
            reading.text.place(start, stop) if start >= 0 and stop >= 0 else None for start, stop in reading.sections
        ]
    think, key, orc, note = places
    return Sections(found=all(place is not None for place in places), think=think, key=key, orc=orc, note=note)


def _key_steps(
    reading: Reading, found: list[Coverage | None], partners: dict[int, int], as_steps: bool = False
) -> list[KeyStep]:
    return [
        KeyStep(
            step=k,
            number=line.number,
            status=line.status,
            place=None if as_steps else reading.text.place(line.start, line.stop),
            text=reading.text.part(line.start, line.stop),
            action=Phrase(text=line.action.text, words=line.action.words) if line.status == "ok" else None,
            objects=_phrases(line, "objects"),
            parameters=_phrases(line, "parameters"),
            coverage=coverage,
            partner=partners.get(k),
        )
        for k, (line, coverage) in enumerate(zip(reading.lines, found, strict=True), 1)
    ]


def _phrases(line: Line, kind: str) -> list[Phrase]:
    return [Phrase(text=element.text, words=element.words) for element in getattr(line, kind)]


def _prose_steps(reading: Reading | None) -> list[ProseStep]:
    if reading is None:
        return []
    return [
        ProseStep(
            step=k,
            number=prose.number,
            place=reading.text.place(prose.start, prose.stop),
            text=reading.text.part(prose.start, prose.stop),
            pieces=prose.pieces,
            marks=marks,
        )
        for k, (prose, marks) in enumerate(zip(reading.prose, marks_of(reading), strict=True), 1)
    ]

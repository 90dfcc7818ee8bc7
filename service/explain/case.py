"""One response against its reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels.column import TextColumn, column_of
from ...kernels.reading.references import References
from ..errors import InvalidReference, InvalidRequest, Issue
from ..rewards.scorer import Scorer
from ..rewards.scores import Scores
from ..scoring.labels import read_label
from ..scoring.reference_reader import parse_valid_references, references_as_column
from ..scoring.references import MAX_REFERENCE_BYTES, ReferenceTexts, alternatives_of
from ..scoring.texts import utf8
from ..settings import ScoreSettings
from .reading import MAX_STEPS, Reading, Text, read_reference, read_response

MAX_BYTES = 1 << 19  # of a response that is explained


@dataclass(frozen=True, kw_only=True)
class Case:
    scorer: Scorer
    response: bytes
    references: ReferenceTexts
    """The reference with its alternatives."""
    max_reference_bytes: int
    texts: TextColumn
    """Their texts."""
    step_counts: list[int]
    """The steps of each text."""
    alternative: int
    """The alternative that counted, from 0."""
    alternative_rewards: list[float]
    """The reward against each alternative."""
    as_steps: bool
    reward: float
    reason: str
    components: dict[str, float]
    steps: list[dict[str, Any]]
    """The entry of the response in the column of steps."""
    reading: Reading | None
    expected: Reading

    @property
    def settings(self) -> ScoreSettings:
        return self.scorer.settings

    def reading_of(self, alternative: int) -> Reading:
        """Return an alternative of the reference; 0 is a reference without alternatives."""
        return self.expected if alternative == self.alternative else _alternative(self.texts, alternative)

    def rescored(self, responses: list[bytes]) -> Scores:
        index = np.zeros(len(responses), np.int64)
        return self.scorer.score_texts(column_of(responses), self.references, index, self.max_reference_bytes)


def case_of(
    scorer: Scorer, response: str, reference: str | Mapping[str, Any], max_reference_bytes: int = MAX_REFERENCE_BYTES
) -> Case:
    """Score one response; raises InvalidReference, and InvalidRequest if a text is too long to be explained."""
    if not isinstance(response, str):
        raise InvalidRequest([Issue("response", "wrong_type", "a string is needed")])
    settings, content = scorer.settings, utf8(response)
    reference = read_label(reference).reference
    references, parsed = read_texts(reference, settings, max_reference_bytes)
    column = references.texts
    assert isinstance(column, TextColumn)
    too_large = []
    if column.lengths.max() > MAX_BYTES or parsed.step_counts.max() > MAX_STEPS:
        too_large.append("reference")
    if MAX_BYTES < len(content) <= settings.max_response_bytes:
        too_large.append("response")
    _refuse(too_large)
    index = np.zeros(1, np.int64)
    scores = scorer.score_texts(column_of([content]), references, index, max_reference_bytes, steps=True)
    assert scores.alternative is not None
    assert scores.steps is not None
    alternative, index = int(scores.alternative[0]), np.arange(column.rows)
    rewards = scores.rewards
    if references.alternatives is not None:
        each = ReferenceTexts(column)
        rewards = scorer.score_texts(column_of([content] * column.rows), each, index, max_reference_bytes).rewards
    reason, reading = str(scores.reasons[0]), None
    if len(content) <= settings.max_response_bytes:
        reading = read_response(Text(content), settings.think_prefilled or reason == "think_not_opened")
        if reason != "too_long" and reading.whole == 4 and max(reading.key_lines, reading.prose_steps) > MAX_STEPS:
            _refuse(["response"])  # only if max_steps is set above what is explained
    return Case(
        scorer=scorer,
        response=content,
        references=references,
        max_reference_bytes=max_reference_bytes,
        texts=column,
        step_counts=parsed.step_counts.tolist(),
        alternative=alternative,
        alternative_rewards=rewards.tolist(),
        as_steps=not isinstance(chosen_of(reference, alternative), str),
        reward=float(scores.rewards[0]),
        reason=reason,
        components={name: float(values[0]) for name, values in scores.components.items()},
        steps=scores.steps[0],
        reading=reading,
        expected=_alternative(column, alternative),
    )


def _alternative(texts: TextColumn, number: int) -> Reading:
    return read_reference(Text(texts.data[texts.offsets[number] : texts.offsets[number + 1]].tobytes()))


def chosen_of(reference: Any, alternative: int) -> Any:
    """Return the alternative of this number, or the reference without alternatives."""
    entries = alternatives_of(reference)
    return reference if entries is None else entries[alternative]


def read_texts(reference: Any, settings: ScoreSettings, max_bytes: int) -> tuple[ReferenceTexts, References]:
    """Return a reference, with its alternatives side by side, and its parsed texts; raises InvalidReference."""
    references, issues = references_as_column([reference])
    parsed, faults = parse_valid_references(references, settings.max_reference_steps, max_bytes)
    if issues := issues or faults:
        raise InvalidReference(
            [issue._replace(path=issue.path.replace("references[0]", "reference", 1)) for issue in issues]
        )
    return references, parsed


def _refuse(paths: list[str]) -> None:
    if paths:
        detail = f"explanations are limited to {MAX_BYTES} bytes and {MAX_STEPS} steps"
        raise InvalidRequest([Issue(path, "too_long", detail) for path in paths])

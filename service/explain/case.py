"""One response with its reference: scored, and read as far as it can be."""

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
from ..scoring.references import MAX_REFERENCE_BYTES, parse_valid_references
from ..scoring.text_columns import references_as_column, utf8
from ..settings import ScoreSettings
from .reading import MAX_STEPS, Reading, read_reference, read_response
from .text import Text

__all__ = ["MAX_BYTES", "Case", "case_of", "parsed_reference"]

MAX_BYTES = 1 << 19  # of a response that is explained


@dataclass(frozen=True, kw_only=True)
class Case:
    scorer: Scorer
    response: bytes
    references: References
    as_steps: bool
    reward: float
    reason: str
    components: dict[str, float]
    reading: Reading | None
    expected: Reading

    @property
    def settings(self) -> ScoreSettings:
        return self.scorer.settings

    def rescored(self, responses: list[bytes]) -> Scores:
        index = np.zeros(len(responses), np.int64)
        return self.scorer.score_parsed(column_of(responses), self.references, index)


def case_of(
    scorer: Scorer, response: str, reference: str | Mapping[str, Any], max_reference_bytes: int = MAX_REFERENCE_BYTES
) -> Case:
    """Score one response; raises InvalidReference, and InvalidRequest if a text is too long to be explained."""
    if not isinstance(response, str):
        raise InvalidRequest([Issue("response", "wrong_type", "a string is needed")])
    settings, content = scorer.settings, utf8(response)
    column, references = parsed_reference(reference, settings.max_steps, max_reference_bytes)
    expected, too_large = column.data.tobytes(), []
    if len(expected) > MAX_BYTES or references.step_counts[0] > MAX_STEPS:
        too_large.append("reference")
    if MAX_BYTES < len(content) <= settings.max_response_bytes:
        too_large.append("response")
    _refuse(too_large)
    scores = scorer.score_parsed(column_of([content]), references, np.zeros(1, np.int64))
    reason, reading = str(scores.reasons[0]), None
    if len(content) <= settings.max_response_bytes:
        reading = read_response(Text(content), settings.think_prefilled or reason == "think_not_opened")
        if reason != "too_long" and reading.whole == 4 and max(reading.key_lines, reading.prose_steps) > MAX_STEPS:
            _refuse(["response"])  # only if max_steps is set above what is explained
    return Case(
        scorer=scorer,
        response=content,
        references=references,
        as_steps=not isinstance(reference, str),
        reward=float(scores.rewards[0]),
        reason=reason,
        components={name: float(values[0]) for name, values in scores.components.items()},
        reading=reading,
        expected=read_reference(Text(expected)),
    )


def parsed_reference(reference: Any, max_steps: int, max_bytes: int) -> tuple[TextColumn, References]:
    column, issues = references_as_column([reference])
    if not issues:
        references, issues = parse_valid_references(column, max_steps, max_bytes)
    if issues:
        raise InvalidReference([issue._replace(path="reference") for issue in issues])
    return column, references


def _refuse(paths: list[str]) -> None:
    if paths:
        detail = f"explanations are limited to {MAX_BYTES} bytes and {MAX_STEPS} steps"
        raise InvalidRequest([Issue(path, "too_long", detail) for path in paths])

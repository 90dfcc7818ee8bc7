"""Protocol question answering: accuracy, and the Brier score of the confidence that comes with each answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ..task import OK, Advance, Evaluation, Failure, Metric, Options, Record, Records, Rewards, Task, mean_of, reporting
from .answers import FAILURES, NO_MARKERS, NOT_TEXT, after_thinking, first_block

__all__ = ["TASK", "Answer", "answer_of"]

NUMBER = re.compile(r"\d+")
FRACTION = re.compile(r"\.\d")
MAX_NUMBER = 4_300
"""Digits that Python converts to an integer; more are an error there, so they are not a confidence."""

UNREAD = {
    **FAILURES,
    "several_separators": "The block holds more than one &.",
    "no_confidence": "No number stands where the confidence should.",
    "confidence_over_100": "The confidence is over 100 percent.",
}
REASONS = {OK: "An answer was read.", **UNREAD}


class Answer(NamedTuple):
    """The answer in a response."""

    text: str
    confidence: int
    """In percent, 0 to 100."""
    fraction: bool
    """Whether a point is followed by a digit (`0.95`): what was read is the number before it, 0."""


def answer_of(response: object) -> Answer | str:
    """Return the answer and its confidence, else the reason for its absence."""
    if not isinstance(response, str):
        return NOT_TEXT
    block = first_block(after_thinking(response))
    if block is None:
        return NO_MARKERS
    parts = block.split("&")
    if len(parts) > 2:
        return "several_separators"
    if len(parts) == 1:
        before, _, after = block.rpartition(" ")
        parts = [before, after]
    digits = NUMBER.search(parts[1])
    if digits is None or len(digits[0]) > MAX_NUMBER:
        return "no_confidence"
    confidence = int(digits[0])
    if confidence > 100:
        return "confidence_over_100"
    return Answer(parts[0].strip(), confidence, FRACTION.search(parts[1]) is not None)


class PqaRecord(Record):
    """One question of BioProBench's PQA with a model's response."""

    answer: Any = Field(description="The right choice. It is compared as it is: a number is no text's equal.")
    generated_response: Any = Field(description="The model's response; what is not text counts as failed.")


class PqaOptions(Options):
    """What PQA may be asked."""

    reward: Literal["accuracy", "calibrated"] = Field(
        "accuracy",
        description="Rewards: 1 for the right answer, else 0; or that less the answer's Brier score, from -1 to 1.",
    )


class Pqa(Task):
    """Protocol question answering."""

    name = "bioprobench.pqa"
    description = "BioProBench, protocol question answering: accuracy and Brier score (equations 3 and 4)."
    record = PqaRecord
    options = PqaOptions
    metrics = (
        Metric("accuracy", "Acc", "Share of right answers among those that could be read (equation 3).", percent=True),
        Metric(
            "brier",
            "Brier",
            "Mean of (confidence - right)² over the answers that could be read (equation 4).",
            less_is_better=True,
        ),
        Metric("failed", "Failed", "Share of responses without a readable answer.", percent=True, less_is_better=True),
        Metric(
            "accuracy_over_all", "Acc (all)", "Share of right answers among all: what failed is wrong.", percent=True
        ),
        Metric(
            "fractional_confidence",
            "Fractional",
            "Share of read answers with a fraction for a confidence: 0.95 is read as 0 percent.",
            percent=True,
            less_is_better=True,
        ),
    )
    failures = UNREAD
    reward = "1 for the right answer and 0 else (`reward = calibrated`: less the Brier score, from -1 to 1)."
    reasons = REASONS
    components = ("accuracy", "brier", "confidence")
    passed_if = ("accuracy",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        return self._read(records, advance)[0]

    def _read(self, records: Records, advance: Advance) -> tuple[Evaluation, np.ndarray]:
        """Return the evaluation, and the confidence of each answer from 0 to 1, NaN where it could not be read."""
        rows, said, failed = [], [], []
        for row, record in enumerate(reporting(records, advance)):
            answer = answer_of(record["generated_response"])
            if isinstance(answer, str):
                failed.append(Failure(row, answer, of_response=True))
            else:
                rows.append(row)
                said.append((answer.text == record["answer"], answer.confidence / 100, answer.fraction))
        columns = np.full((3, len(records)), np.nan)
        columns[:, rows] = np.array(said, float).reshape(-1, 3).T
        right, confidence, fractional = columns
        unread = np.isnan(right)
        found = {
            "accuracy": right,
            "brier": (confidence - right) ** 2,
            "failed": unread.astype(float),
            "accuracy_over_all": np.where(unread, 0.0, right),
            "fractional_confidence": fractional,
        }
        return Evaluation(found, failed, lambda rows: {"accuracy": mean_of(right[rows]) or 0.0}), confidence

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        """Accept any object with both fields, which may hold anything."""
        if isinstance(record, dict) and "answer" in record and "generated_response" in record:
            return []
        return super().validation_errors(record)

    def rewards(self, records: Records, options: Any, advance: Advance) -> Rewards:
        found, confidence = self._read(records, advance)
        right = found.columns["accuracy_over_all"]
        brier = np.nan_to_num(found.columns["brier"], nan=1.0)
        confidence = np.nan_to_num(confidence, nan=0.0)
        rewards = right - brier if options.reward == "calibrated" else right
        return Rewards(rewards, found.failed, {"accuracy": right, "brier": brier, "confidence": confidence})

    def reference(self, value: Any) -> tuple[Mapping[str, Any] | None, str]:
        """Accept a record of the benchmark, as an object or JSON text, or the right answer itself."""
        if isinstance(value, str):
            found, _ = super().reference(value)
            return found if found is not None else {"answer": value}, ""
        return super().reference(value)


TASK = Pqa()

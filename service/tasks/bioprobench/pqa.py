"""Protocol question answering: accuracy, and the Brier score of the confidence that comes with each answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ..task import (
    COMMON_REASONS,
    OK,
    Advance,
    Evaluation,
    Metric,
    Notice,
    RecordFailure,
    Records,
    TaskRewards,
    reporting,
)
from .answers import (
    EMPTY,
    EVALUATOR,
    FAILURES,
    NO_MARKERS,
    NOT_TEXT,
    SCRIPT,
    THOTH,
    ConversationRecord,
    ConversationTask,
    ProfileOptions,
    UnreadableAnswer,
    after_thinking,
    first_block,
    marked_answer,
    mean_read,
    metric_of_scripts,
)

LETTERS = "ABCDE"
SEPARATORS = ").：:-、"
CONFIDENCE = re.compile(r"&\s*+([0-9]++(?:(\.)[0-9]++)?)")
FIRST_LETTER = re.compile(r"[A-Ea-e]\b")
ANY_LETTER = re.compile(r"\b[A-Ea-e]\b")
AFTER_LETTER = re.compile(r"[A-Ea-e]\s?[).：:\-、]?\s?(.+?)\s?(?:&|$)")
LETTERED = re.compile(r"[A-E]\)(?: |$)")


class ChosenOption(NamedTuple):
    """The option in a response; `letter` is None without one from A to E, `fraction` tells a rounded confidence."""

    letter: str | None
    text: str
    confidence: int
    fraction: bool


class ChoiceQuestion(NamedTuple):
    """A multiple-choice question; `answer` is the right option with its letter, or its text alone."""

    options: Mapping[str, str]
    answer: str | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ChoiceQuestion:
        """Return the options of a record, lettered lines of `question` and entries of `choices`, and its answer."""
        answer, question, choices = (record.get(name) for name in ("answer", "question", "choices"))
        gold = answer if isinstance(answer, str) else None
        has_options = isinstance(question, str) or isinstance(choices, list)
        options = options_in(question if isinstance(question, str) else "" if has_options else gold or "")
        if isinstance(choices, list):
            options |= {letter: text for letter, text in zip(LETTERS, choices, strict=False) if isinstance(text, str)}
        return cls(options, None if gold is None else spaced(gold))

    def is_answered_by(self, choice: ChosenOption) -> bool:
        if choice.letter is None or (self.answer is not None and not LETTERED.match(self.answer)):
            return spaced(choice.text) == self.answer
        return spaced(f"{choice.letter}) {choice.text}") == self.answer


def options_in(question: str) -> dict[str, str]:
    """Return the text of each option by its letter, the last of each; a separator may be missing."""
    options = {}
    for line in question.splitlines():
        line = line.lstrip()
        letter, remainder = line[:1].upper(), line[1:]
        if not remainder or letter not in LETTERS:
            continue
        text = remainder.strip()
        if text[:1] and text[0] in SEPARATORS and len(remainder.lstrip()) > 1:
            text = text[1:].strip()
        options[letter] = text
    return options


def choice_of(response: object, options: Mapping[str, str]) -> ChosenOption | str:
    if not isinstance(response, str):
        return NOT_TEXT
    text = response.strip()
    if not text:
        return EMPTY
    confidence, fraction = confidence_in(text)
    match = FIRST_LETTER.match(text) or ANY_LETTER.search(text)
    if match is None:
        return ChosenOption(None, text, confidence, fraction)
    letter = match[0].upper()
    if letter not in options:
        spaced_once = re.sub(r"\s+", lambda run: "\n" if "\n" in run[0] else " ", text)
        after = AFTER_LETTER.match(spaced_once)
        return ChosenOption(letter, after[1] if after else "", confidence, fraction)
    return ChosenOption(letter, options[letter], confidence, fraction)


def confidence_in(text: str) -> tuple[int, bool]:
    """Return the number after the first `&`, rounded and clipped, 0 without one; and whether it has a point."""
    match = CONFIDENCE.search(text)
    value = float(match[1]) if match else 0.0
    return (0 if math.isinf(value) else min(100, round(value))), bool(match and match[2])


def spaced(text: str) -> str:
    return " ".join(text.split())


NUMBER = re.compile(r"\d+")
FRACTION = re.compile(r"\.\d")
MAX_NUMBER = 4_300
SEVERAL_SEPARATORS = "several_separators"
NO_CONFIDENCE = "no_confidence"

UNREAD = {
    **FAILURES,
    SEVERAL_SEPARATORS: "The block holds more than one &.",
    NO_CONFIDENCE: "There is no number where the confidence should be.",
    "confidence_over_100": "The confidence is over 100 percent.",
    EMPTY: "The response is empty (only with `profile = thoth`, where nothing else fails).",
}
UNREAD_BY_EVALUATOR = {
    "not_separated": "The block has no & and no whitespace between answer and confidence (only with `profile = "
    "bioprobench-2`).",
    "confidence_out_of_range": "The confidence is neither from 0 to 1 nor up to 100 (only with `profile = "
    "bioprobench-2`).",
}
REASONS = {OK: "An answer was read.", **UNREAD, **COMMON_REASONS, **UNREAD_BY_EVALUATOR}


class PqaAnswer(NamedTuple):
    text: str
    confidence: int
    fraction: bool


def answer_of(response: object) -> PqaAnswer | str:
    if not isinstance(response, str):
        return NOT_TEXT
    block = first_block(after_thinking(response))
    if block is None:
        return NO_MARKERS
    parts = block.split("&")
    if len(parts) > 2:
        return SEVERAL_SEPARATORS
    if len(parts) == 1:
        before, _, after = block.rpartition(" ")
        parts = [before, after]
    digits = NUMBER.search(parts[1])
    if digits is None or len(digits[0]) > MAX_NUMBER:
        return NO_CONFIDENCE
    confidence = int(digits[0])
    if confidence > 100:
        return "confidence_over_100"
    return PqaAnswer(parts[0].strip(), confidence, FRACTION.search(parts[1]) is not None)


class PqaRecord(ConversationRecord):
    """One question of BioProBench's PQA with a model's response."""

    answer: Any = Field(
        description="The right choice. It is compared as it is: a number never equals a text; profile bioprobench-2 "
        "compares its text."
    )
    question: Any = Field(None, description="Profile thoth: its lines that begin with a letter are the options.")
    choices: Any = Field(None, description="Profile thoth: the options, in the order of their letters.")
    generated_response: Any = Field(description="The model's response; anything but text counts as failed.")


class PqaOptions(ProfileOptions):
    """Options of PQA."""

    reward: Literal["accuracy", "calibrated"] = Field(
        "accuracy",
        description="Rewards: 1 for the right answer, else 0; or that minus the answer's Brier score, from -1 to 1.",
    )


def read_by_script(record: Mapping[str, Any], _: object) -> tuple[bool, float, bool] | str:
    """Return whether a response is right, its confidence, and whether that has a fraction, or a reason."""
    answer = answer_of(record["generated_response"])
    if isinstance(answer, str):
        return answer
    return answer.text == record["answer"], answer.confidence / 100, answer.fraction


def read_by_evaluator(record: Mapping[str, Any], _: object) -> tuple[bool, float, bool] | str:
    """Return the same as BioProBench's evaluator reads it, which keeps the fraction."""
    try:
        text, confidence = answer_and_confidence(marked_answer(record["generated_response"]))
    except UnreadableAnswer as error:
        return error.reason
    answer = record["answer"]
    is_short = isinstance(answer, int) and answer.bit_length() < 3 * MAX_NUMBER  # Python writes no longer ones
    is_scalar = answer is None or isinstance(answer, float) or is_short
    return text == (str(answer) if is_scalar else answer), confidence, False


def answer_and_confidence(block: str) -> tuple[str, float]:
    parts = block.split("&") if "&" in block else block.rsplit(maxsplit=1)
    if len(parts) != 2:
        raise UnreadableAnswer(SEVERAL_SEPARATORS if "&" in block else "not_separated")
    try:
        confidence = float(parts[1].strip().rstrip("%"))
    except ValueError:
        raise UnreadableAnswer(NO_CONFIDENCE) from None
    if confidence > 1:
        confidence /= 100
    if not 0 <= confidence <= 1:  # also if it is not a number
        raise UnreadableAnswer("confidence_out_of_range")
    return parts[0].strip(), confidence


def read_by_letter(
    record: Mapping[str, Any], questions: dict[tuple[int, ...], ChoiceQuestion]
) -> tuple[bool, float, bool] | str:
    """Return the same as the SCORE paper's authors read it; `questions` are cached by the identity of their objects."""
    key = tuple(id(record.get(name)) for name in ("answer", "question", "choices"))
    if key not in questions:
        questions[key] = ChoiceQuestion.of(record)
    choice = choice_of(record["generated_response"], questions[key].options)
    if isinstance(choice, str):
        return choice
    return questions[key].is_answered_by(choice), choice.confidence / 100, choice.fraction


READERS = {SCRIPT: read_by_script, THOTH: read_by_letter, EVALUATOR: read_by_evaluator}


def names_choice(record: Mapping[str, Any]) -> bool:
    """Return whether a response names one of the choices by its text in a marked block, as BioProBench asks for it."""
    answer = answer_of(record["generated_response"])
    choices = record.get("choices")
    return isinstance(answer, PqaAnswer) and isinstance(choices, list) and answer.text in choices


IN_WORDS = (
    "answers name their choice by its text in a marked block, but profile=thoth looks for a letter: evaluate with "
    "profile=bioprobench."
)
FRACTIONS = "answers that were read have a confidence with decimals, which is read in whole percent: 0.95 as 0 or 1."


class Pqa(ConversationTask):
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
        Metric(
            "brier_score",
            "Brier score",
            "The same by the name that the evaluator gives it.",
            less_is_better=True,
            profiles=(EVALUATOR,),
        ),
        Metric("failed", "Failed", "Share of responses without a readable answer.", percent=True, less_is_better=True),
        Metric(
            "accuracy_over_all",
            "Acc (all)",
            "Share of right answers among all responses; failed ones count as wrong.",
            percent=True,
        ),
        metric_of_scripts(
            "fractional_confidence",
            "Fractional",
            "Share of read answers with a fraction for a confidence: 0.95 is read as 0 percent (profile thoth: 1).",
        ),
    )
    failures = UNREAD | UNREAD_BY_EVALUATOR
    reward = "1 for the right answer, else 0 (`reward = calibrated`: minus the Brier score, from -1 to 1)."
    reasons = REASONS
    text_reference = "answer"
    components = ("accuracy", "brier", "confidence")
    passed_if = ("accuracy",)
    answered = ("answer",)

    def evaluate(self, records: Records, options: Any, advance: Advance) -> Evaluation:
        return self._read(self.completed(records), options, advance)[0]

    def _read(self, records: Records, options: Any, advance: Advance) -> tuple[Evaluation, np.ndarray]:
        read = READERS[options.profile]
        questions: dict[tuple[int, ...], ChoiceQuestion] = {}
        rows, said, failed, in_words = [], [], [], 0
        for row, record in enumerate(reporting(records, advance)):
            answer = read(record, questions)
            in_words += read is read_by_letter and names_choice(record)
            if isinstance(answer, str):
                failed.append(RecordFailure(row, answer, of_response=True))
            else:
                rows.append(row)
                said.append(answer)
        columns = np.full((3, len(records)), np.nan)
        columns[:, rows] = np.array(said, float).reshape(-1, 3).T
        right, confidence, fractional = columns
        unread = np.isnan(right)
        measures = {
            "accuracy": right,
            **dict.fromkeys(("brier", "brier_score"), (confidence - right) ** 2),
            "failed": unread.astype(float),
            "accuracy_over_all": np.where(unread, 0.0, right),
            "fractional_confidence": fractional,
        }
        evaluation = Evaluation(measures, failed, lambda rows: {"accuracy": mean_read(right[rows], options)})
        if fractions := int(np.nansum(fractional)):
            evaluation.warnings.append(Notice(f"{fractions:,} of {len(rows):,} {FRACTIONS}"))
        if in_words:
            evaluation.warnings.append(Notice(f"{in_words:,} of {len(records):,} {IN_WORDS}"))
        return evaluation, confidence

    def validation_errors(self, record: Any) -> list[tuple[str, str, str]]:
        if isinstance(record, dict) and "answer" in record and "generated_response" in record:
            return []
        return super().validation_errors(record)

    def rewards(self, records: Records, options: Any, advance: Advance) -> TaskRewards:
        evaluation, confidence = self._read(records, options, advance)
        right = evaluation.columns["accuracy_over_all"]
        brier = np.nan_to_num(evaluation.columns["brier"], nan=1.0)
        confidence = np.nan_to_num(confidence, nan=0.0)
        rewards = right - brier if options.reward == "calibrated" else right
        return TaskRewards(rewards, evaluation.failed, {"accuracy": right, "brier": brier, "confidence": confidence})

    def from_conversation(self, question: str, answer: str) -> Mapping[str, Any] | str:
        return {"question": question, "answer": answer}


TASK = Pqa()

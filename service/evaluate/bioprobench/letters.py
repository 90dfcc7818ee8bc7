"""The option that a response to PQA chooses, as the SCORE paper's authors read it: by its letter.

Every search takes linear time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .answers import EMPTY, NOT_TEXT

__all__ = ["ChoiceQuestion", "ChosenOption", "choice_of", "options_in"]

LETTERS = "ABCDE"
SEPARATORS = ").：:-、"
CONFIDENCE = re.compile(r"&\s*+([0-9]++(?:(\.)[0-9]++)?)")
FIRST_LETTER = re.compile(r"[A-Ea-e]\b")
ANY_LETTER = re.compile(r"\b[A-Ea-e]\b")
AFTER_LETTER = re.compile(r"[A-Ea-e]\s?[).：:\-、]?\s?(.+?)\s?(?:&|$)")
"""The text must have single characters for runs of white space; `.` does not match a line break."""
LETTERED = re.compile(r"[A-E]\)(?: |$)")


class ChosenOption(NamedTuple):
    """The option in a response."""

    letter: str | None
    """Upper case; None if no word of the response is a letter from A to E."""
    text: str
    """The option's text in the question, else what follows the letter; without a letter the whole response."""
    confidence: int
    """In percent, 0 to 100."""
    fraction: bool
    """True if the confidence was rounded: `0.95` is 1 percent."""


class ChoiceQuestion(NamedTuple):
    """A multiple-choice question, with which a response is compared."""

    options: Mapping[str, str]
    answer: str | None
    """The right option with its letter, `B) 5 ml`, or its text alone; None if it is no text, which nothing equals."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ChoiceQuestion:
        """Return the options of a record and its answer.

        Options are the lettered lines of `question`, and the entries of `choices` in their order; of a record with
        neither, the answer is the only option known.
        """
        answer, question, choices = (record.get(name) for name in ("answer", "question", "choices"))
        gold = answer if isinstance(answer, str) else None
        has_options = isinstance(question, str) or isinstance(choices, list)
        options = options_in(question if isinstance(question, str) else "" if has_options else gold or "")
        if isinstance(choices, list):
            options |= {letter: text for letter, text in zip(LETTERS, choices, strict=False) if isinstance(text, str)}
        return cls(options, None if gold is None else spaced(gold))

    def is_answered_by(self, choice: ChosenOption) -> bool:
        """Return whether the choice is the right one: letter and text, or the text if the answer has no letter."""
        if choice.letter is None or (self.answer is not None and not LETTERED.match(self.answer)):
            return spaced(choice.text) == self.answer
        return spaced(f"{choice.letter}) {choice.text}") == self.answer


def options_in(question: str) -> dict[str, str]:
    """Return the text of each option by its letter: of lines that begin with a letter from A to E, the last of each.

    The separator after the letter may be missing, so that `Add 5 ml.` before the options is one too.
    """
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
    """Return the option that a response chooses and its confidence, 0 without any, else the reason for its absence."""
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
        after = AFTER_LETTER.match(one_space(text))
        return ChosenOption(letter, after[1] if after else "", confidence, fraction)
    return ChosenOption(letter, options[letter], confidence, fraction)


def confidence_in(text: str) -> tuple[int, bool]:
    """Return the number after the first `&` that one follows, rounded half to even and clipped, and if it has a point.

    Without one, or if it is too large for a float, it is 0.
    """
    match = CONFIDENCE.search(text)
    value = float(match[1]) if match else 0.0
    return (0 if math.isinf(value) else min(100, round(value))), bool(match and match[2])


def spaced(text: str) -> str:
    """Return the text trimmed, with one space for each run of white space."""
    return " ".join(text.split())


def one_space(text: str) -> str:
    """Return the text with one character for each run of white space: a line break if it has any."""
    return re.sub(r"\s+", lambda run: "\n" if "\n" in run[0] else " ", text)

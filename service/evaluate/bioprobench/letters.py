"""The option that a response to PQA chooses by its letter, as the SCORE paper's authors read it, in linear time."""

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

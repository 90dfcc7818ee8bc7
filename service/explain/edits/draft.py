"""Drafts: a response as steps that can be rearranged, replaced, and rendered as text again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

__all__ = ["Draft", "DraftStep", "StepPool", "one_line"]


class DraftStep(NamedTuple):
    body: bytes
    prose: bytes

    def with_phrases(self, phrases: Sequence[str]) -> DraftStep:
        return self._replace(prose=b"%b (%b)" % (self.prose, one_line("; ".join(phrases)))) if phrases else self


class Draft(NamedTuple):
    """A response: the text before its key steps, between key and orc, and after orc; and its steps, in order."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: list[DraftStep]

    def render(self, steps: Sequence[DraftStep] | None = None) -> bytes:
        numbered = list(enumerate(self.steps if steps is None else steps, 1))
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in numbered)
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in numbered)
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)


class StepPool:
    """Numbers steps, equal ones alike: a sequence of steps is a tuple of numbers, cheap to compare and to render."""

    def __init__(self) -> None:
        self._numbers: dict[DraftStep, int] = {}
        self._steps: list[DraftStep] = []
        self._bodies: list[bytes] = []
        self._prose: list[bytes] = []
        self._headings: list[bytes] = []

    def number(self, step: DraftStep) -> int:
        number = self._numbers.setdefault(step, len(self._steps))
        if number == len(self._steps):
            self._steps.append(step)
            self._bodies.append(step.body)
            self._prose.append(step.prose)
        return number

    def steps(self, numbers: Sequence[int]) -> list[DraftStep]:
        return [self._steps[number] for number in numbers]

    def outline(self, numbers: Sequence[int]) -> bytes:
        """Render these steps as a response with empty <think> and <note>, which do not affect the reward."""
        while len(self._headings) < len(numbers):
            self._headings.append(b"\nStep %d: " % (len(self._headings) + 1))
        key = chain.from_iterable(zip(self._headings, map(self._bodies.__getitem__, numbers), strict=False))
        orc = chain.from_iterable(zip(self._headings, map(self._prose.__getitem__, numbers), strict=False))
        return b"".join((b"<think></think><key>", *key, b"\n</key><orc>", *orc, b"\n</orc><note></note>"))


def one_line(text: str) -> bytes:
    """Join the words by single spaces: a line break could begin another step."""
    return " ".join(text.split()).encode()

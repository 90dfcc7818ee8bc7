"""A response as steps that can be rearranged and rendered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import orjson

from ..reading import Line, Reading

__all__ = ["Draft", "DraftStep", "body_of", "draft_of", "step_of"]


class DraftStep(NamedTuple):
    """A key step's object as JSON, and its prose."""

    body: bytes
    prose: bytes

    def with_phrases(self, phrases: Sequence[str]) -> DraftStep:
        """Return the step with these phrases added to its prose."""
        return self._replace(prose=b"%b (%b)" % (self.prose, _one_line("; ".join(phrases)))) if phrases else self


class Draft(NamedTuple):
    """A response: the text before its key steps, between key and orc, and after orc; and its steps, in order."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: list[DraftStep]

    def render(self, steps: Sequence[DraftStep] | None = None) -> bytes:
        """Render the response with its steps, or with others, numbered from 1."""
        numbered = list(enumerate(self.steps if steps is None else steps, 1))
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in numbered)
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in numbered)
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)


def draft_of(reading: Reading) -> Draft:
    """Return a response whose sections are complete as its valid steps, each with the prose of its position.

    A step without prose gets prose of its own words.
    """
    content = reading.text.content
    _, (key_start, key_stop), (orc_start, orc_stop), _ = reading.sections
    steps = [step_of(line, content) for line in reading.lines if line.status == "ok"]
    for number, (position, step) in enumerate(zip(reading.positions, steps, strict=True)):
        if position <= len(reading.prose):
            prose = reading.prose[position - 1]
            steps[number] = step._replace(prose=content[prose.start : prose.stop])
    return Draft(content[:key_start], content[key_stop:orc_start], content[orc_stop:], steps)


def step_of(line: Line, content: bytes) -> DraftStep:
    """Return a key line as a step whose prose has its own words."""
    phrases = [phrase.text for phrase in line.phrases if phrase.words]
    prose = _one_line(f"{phrases[0]}: {'; '.join(phrases[1:])}.")
    return DraftStep(content[line.body : line.stop].strip(), prose)


def body_of(line: Line) -> bytes:
    """Return the phrases of a key line as JSON."""
    objects, parameters = ([phrase.text for phrase in phrases] for phrases in (line.objects, line.parameters))
    return orjson.dumps({"action": line.action.text, "objects": objects, "parameters": parameters})


def _one_line(text: str) -> bytes:
    """Join the words by single spaces: a line break could begin another step."""
    return " ".join(text.split()).encode()

"""A response as steps that can be rearranged and rendered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from ..reading import Line, Prose, Reading

__all__ = ["Draft", "DraftStep", "draft_of", "step_of"]


@dataclass(frozen=True, slots=True)
class DraftStep:
    """A key step's object as JSON, and its prose."""

    body: bytes
    prose: bytes

    def with_phrases(self, phrases: Sequence[str]) -> DraftStep:
        """Return the step with these phrases added to its prose."""
        if not phrases:
            return self
        return replace(self, prose=b"%b (%b)" % (self.prose, _one_line("; ".join(phrases))))


@dataclass(frozen=True, slots=True)
class Draft:
    """A response: the text before its key steps, between key and orc, and after orc; and its steps, in order."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: tuple[DraftStep, ...]

    def render(self) -> bytes:
        """Render the response, its steps numbered from 1."""
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in enumerate(self.steps, 1))
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in enumerate(self.steps, 1))
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)

    def with_steps(self, steps: Sequence[DraftStep]) -> Draft:
        """Return the same response with other steps."""
        return replace(self, steps=tuple(steps))


def draft_of(reading: Reading) -> Draft:
    """Return a response whose sections are complete as its valid steps, each with the prose of its position.

    A step without prose gets prose of its own words.
    """
    content = reading.text.content
    (_, _), (key_start, key_stop), (orc_start, orc_stop), _ = reading.sections
    steps = []
    for k, line in enumerate(reading.lines):
        if line.status != "ok":
            continue
        if k < len(reading.prose):
            steps.append(DraftStep(_body(line, content), _prose(reading.prose[k], content)))
        else:
            steps.append(step_of(line, content))
    return Draft(content[:key_start], content[key_stop:orc_start], content[orc_stop:], tuple(steps))


def step_of(line: Line, content: bytes) -> DraftStep:
    """Return a key line as a step whose prose has its own words."""
    phrases = [element.text for element in line.elements if element.canon]
    return DraftStep(_body(line, content), _one_line(f"{phrases[0]}: {'; '.join(phrases[1:])}."))


def body_with(line: Line, source: Line, objects: bool, parameters: bool) -> bytes:
    """Return the JSON object of `line` with the objects or the parameters of `source`."""
    fields = {
        "action": line.action.text,
        "objects": [element.text for element in (source if objects else line).objects],
        "parameters": [element.text for element in (source if parameters else line).parameters],
    }
    return orjson.dumps(fields)


def body_renamed(line: Line, action: str) -> bytes:
    """Return the JSON object of `line` with another action."""
    fields = {
        "action": action,
        "objects": [element.text for element in line.objects],
        "parameters": [element.text for element in line.parameters],
    }
    return orjson.dumps(fields)


def _body(line: Line, content: bytes) -> bytes:
    return content[line.body : line.stop].strip()


def _prose(prose: Prose, content: bytes) -> bytes:
    return content[prose.start : prose.stop]


def _one_line(text: str) -> bytes:
    """Join the words by single spaces: a line break could begin another step."""
    return " ".join(text.split()).encode()

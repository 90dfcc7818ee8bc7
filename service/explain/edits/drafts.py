"""A response as steps that can be rearranged, and written down again."""

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

    def saying(self, phrases: Sequence[str]) -> DraftStep:
        """The same step, whose prose says these phrases too."""
        if not phrases:
            return self
        return replace(self, prose=b"%b (%b)" % (self.prose, _one_line("; ".join(phrases))))


@dataclass(frozen=True, slots=True)
class Draft:
    """The response before its key steps, between key and orc, and behind; and its steps, numbered as they stand."""

    head: bytes
    middle: bytes
    tail: bytes
    steps: tuple[DraftStep, ...]

    def written(self) -> bytes:
        """The response as text."""
        key = b"\n".join(b"Step %d: %b" % (k, step.body) for k, step in enumerate(self.steps, 1))
        orc = b"\n".join(b"Step %d: %b" % (k, step.prose) for k, step in enumerate(self.steps, 1))
        return b"%b\n%b\n%b\n%b\n%b" % (self.head, key, self.middle, orc, self.tail)

    def with_steps(self, steps: Sequence[DraftStep]) -> Draft:
        """The same response with other steps."""
        return replace(self, steps=tuple(steps))


def draft_of(reading: Reading) -> Draft:
    """A response whose sections are found, its valid steps with the prose of their position.

    A step without prose gets some that says its own words.
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
    """A key line as a step with prose that says its own words."""
    phrases = [element.text for element in line.elements if element.canon]
    return DraftStep(_body(line, content), _one_line(f"{phrases[0]}: {'; '.join(phrases[1:])}."))


def body_with(line: Line, source: Line, objects: bool, parameters: bool) -> bytes:
    """The object of `line` with the objects or the parameters of `source`."""
    fields = {
        "action": line.action.text,
        "objects": [element.text for element in (source if objects else line).objects],
        "parameters": [element.text for element in (source if parameters else line).parameters],
    }
    return orjson.dumps(fields)


def body_renamed(line: Line, action: str) -> bytes:
    """The object of `line` with another action."""
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
    """A phrase may hold line breaks, and must not begin a step of its own."""
    return " ".join(text.split()).encode()

"""Key steps and orc steps (docs/rules.md, Reading a response)."""

import re
from typing import Any, NamedTuple

from .json_object import json_object
from .words import words

ASCII_SPACE = " \t\n\r\x0b\x0c"
LINE_END = re.compile(r"\r\n|\n|\r")
KEY_STEP = re.compile(r"step[ \t]+([0-9]+)[ \t]*:[ \t]*(\{.*\})", re.ASCII | re.IGNORECASE | re.DOTALL)
ORC_STEP = re.compile(r"step[ \t]+([0-9]+)[ \t]*:(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)


class BadStepError(ValueError):
    """A key line that is not a valid step; `reason` is one of those in docs/rules.md, Reasons."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class KeyStep(NamedTuple):
    """A step of <key>: its number without leading zeros, the canonical words of every element, and its parameters."""

    number: str
    action: tuple[str, ...]
    objects: list[tuple[str, ...]]
    parameters: list[tuple[str, ...]]
    parameter_texts: list[str]


class OrcStep(NamedTuple):
    """A step of <orc>: its number without leading zeros, its raw text, and for the first step what stands before it."""

    number: str
    text: str
    before: str = ""


def line_spans(block: str) -> list[tuple[int, int]]:
    """Return where the lines stand that are not blank, trimmed of ASCII white space."""
    ends = list(LINE_END.finditer(block))
    spans = []
    for start, stop in zip(
        [0, *(end.end() for end in ends)], [*(end.start() for end in ends), len(block)], strict=True
    ):
        line = block[start:stop]
        first = stop - len(line.lstrip(ASCII_SPACE))
        spans.append((first, first + len(line.strip(ASCII_SPACE))))
    return [(first, last) for first, last in spans if first < last]


def lines(block: str) -> list[str]:
    """Return the lines that are not blank, trimmed of ASCII white space."""
    return [block[start:end] for start, end in line_spans(block)]


def step_from_fields(number: str, fields: Any) -> KeyStep:
    """Return a step from the fields of its object; raises BadStepError."""
    if not isinstance(fields, dict) or fields.keys() != {"action", "objects", "parameters"}:
        raise BadStepError("bad_step_schema")
    arrays = [fields["objects"], fields["parameters"]]
    if not all(isinstance(array, list) and all(isinstance(text, str) for text in array) for array in arrays):
        raise BadStepError("bad_step_schema")
    action = tuple(words(fields["action"])) if isinstance(fields["action"], str) else ()
    if not action:
        raise BadStepError("bad_step_schema")
    objects, parameters = ([element for text in array if (element := tuple(words(text)))] for array in arrays)
    return KeyStep(number, action, objects, parameters, [text for text in fields["parameters"] if words(text)])


def key_step(line: str) -> KeyStep:
    """Read one trimmed line of <key>; raises BadStepError."""
    form = KEY_STEP.fullmatch(line)
    if form is None:
        raise BadStepError("bad_step_line")
    try:
        fields = json_object(form[2])
    except ValueError:
        raise BadStepError("bad_step_json") from None
    return step_from_fields(form[1].lstrip("0"), fields)


def orc_steps(block: str) -> list[OrcStep]:
    """Read <orc>; a line of another form continues the step before it, if any."""
    opened: list[tuple[str, list[str]]] = []
    before: list[str] = []
    for line in lines(block):
        form = ORC_STEP.fullmatch(line)
        if form:
            opened.append((form[1].lstrip("0"), [form[2].strip(ASCII_SPACE)]))
        else:
            (opened[-1][1] if opened else before).append(line)
    steps = [OrcStep(number, " ".join(pieces)) for number, pieces in opened]
    return [steps[0]._replace(before=" ".join(before)), *steps[1:]] if steps else []


def numbered(steps: list[KeyStep] | list[OrcStep]) -> bool:
    """Return whether the steps are numbered 1..n in that order."""
    return [step.number for step in steps] == [str(i) for i in range(1, len(steps) + 1)]

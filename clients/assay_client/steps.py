"""The column of steps: where each step stands in its response, and what it earned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any, TypedDict


class Step(TypedDict):
    """A step of a response; positions are code points of the response."""

    start: int
    """Beginning of the step's line in `<key>`."""
    end: int
    """End of that line, after its last code point."""
    orc_start: int
    """Beginning of the step in `<orc>`."""
    orc_end: int
    coverage: float
    """Share of the step's words that its prose has, in [0, 1]."""
    reference: int
    """Index of the reference's step with which it is matched, or -1."""
    value: float
    """What the step adds to the content, in [0, 1.5]; 0 without a match."""


POSITIONS = ("start", "end", "orc_start", "orc_end", "reference")
NUMBERS = ("coverage", "value")
SPANS = (("start", "end"), ("orc_start", "orc_end"))


def step_problem(step: Any) -> tuple[str, str] | None:
    """Return the first invalid member of a step, "" for the step itself, and what is wrong; None for a valid step."""
    if not isinstance(step, Mapping):
        return "", "must be an object"
    for name in POSITIONS:
        value = step.get(name)
        if type(value) is not int and (isinstance(value, bool) or not isinstance(value, Integral)):
            return name, "must be an integer"
    for name in NUMBERS:
        value = step.get(name)
        if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
            return name, "must be a finite number"
    for start, end in SPANS:
        if not 0 <= step[start] < step[end]:
            return start, f"must be at least 0 and below `{end}`"
    return None


def read_steps(column: Sequence[Any], texts: Sequence[str]) -> list[list[Step]]:
    """Return the steps of each response; raise ValueError for an entry that is not a step within its response."""
    for k, (steps, text) in enumerate(zip(column, texts, strict=True)):
        if not isinstance(steps, list):
            raise ValueError(f"`steps[{k}]` is not a list")
        for i, step in enumerate(steps):
            problem = step_problem(step)
            if problem is None and max(step["end"], step["orc_end"]) > len(text):
                problem = "", "ends after its response"
            if problem is not None:
                raise ValueError(f"`steps[{k}][{i}]{'.' if problem[0] else ''}{problem[0]}` {problem[1]}")
    return list(column)

"""The column of steps: where each step stands, and what it earned (docs/rules.md, Steps)."""

from typing import Any, NamedTuple

from .sections import find_sections
from .steps import ORC_STEP, line_spans

OPENED = "<think>"


class Place(NamedTuple):
    """The spans of a step in <key> and <orc>, in code points of the response."""

    start: int
    end: int
    orc_start: int
    orc_end: int


def orc_spans(block: str) -> list[tuple[int, int]]:
    """Return the span of each step: from the line that opens it to the end of its last line."""
    spans: list[tuple[int, int]] = []
    for start, end in line_spans(block):
        if ORC_STEP.fullmatch(block[start:end]):
            spans.append((start, end))
        elif spans:
            spans[-1] = (spans[-1][0], end)
    return spans


def places(response: str, think_prefilled: bool) -> list[Place]:
    """Return the place of every step of a response that passed the checks before the coverage."""
    added = OPENED if think_prefilled else ""
    sections = find_sections(added + response)
    assert sections is not None
    key, orc = sections.key_start - len(added), sections.orc_start - len(added)
    pairs = zip(line_spans(sections.key), orc_spans(sections.orc), strict=True)
    return [Place(key + start, key + end, orc + first, orc + last) for (start, end), (first, last) in pairs]


def step_column(
    response: str, coverages: list[float], matches: list[tuple[int, int, float]], think_prefilled: bool
) -> list[dict[str, Any]]:
    """Return the entries of a response, with the coverage of every step and the anchors with their values."""
    earned = {i: {"reference": j, "value": value} for i, j, value in matches}
    return [
        {**place._asdict(), "coverage": coverage, **earned.get(i, {"reference": -1, "value": 0.0})}
        for i, (place, coverage) in enumerate(zip(places(response, think_prefilled), coverages, strict=True))
    ]

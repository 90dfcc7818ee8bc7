"""The four sections of a Sketch-and-Fill answer (docs/rules.md, Reading a response)."""

import re
from typing import NamedTuple

TAGS = re.ASCII | re.IGNORECASE
BOUNDARIES = [
    re.compile(tags, TAGS)
    for tags in (r"<think>", r"</think>\s*<key>", r"</key>\s*<orc>", r"</orc>\s*<note>", r"</note>")
]


class Sections(NamedTuple):
    think: str
    key: str
    orc: str
    note: str
    key_start: int
    orc_start: int


def find_sections(text: str) -> Sections | None:
    """Find the leftmost match: the earliest of each boundary after the one before, in one scan."""
    ends: list[int] = []
    starts: list[int] = []
    position = 0
    for boundary in BOUNDARIES:
        match = boundary.search(text, position)
        if match is None:
            return None
        ends.append(match.start())
        starts.append(match.end())
        position = match.end()
    texts = [text[start:end] for start, end in zip(starts, ends[1:], strict=False)]
    return Sections(*texts, key_start=starts[1], orc_start=starts[2])

"""The four sections around a text that has none of them: plain prose, or the lines of <key> alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence

from .draft import one_line

__all__ = ["skeleton_of"]

MAX_LINES = 64
MARKER = re.compile(r"^(?:step\s+\d+\s*[:.)-]?|\d+\s*[.):]|[-*•#>]+)\s*", re.IGNORECASE)
SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ])")
VERB = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")


def skeleton_of(text: str, prose_of: Callable[[Sequence[str]], Sequence[str | None]]) -> tuple[bytes, int] | None:
    """Write the four sections around a text without tags, and count its steps; None if no line or too many are steps.

    `prose_of` returns for each line the prose of its words if it is a valid step. If no line is one, each line or
    sentence becomes a step whose action is its first word.
    """
    lines = [stripped for line in text.splitlines() if (stripped := line.strip())]
    if not 0 < len(lines) <= MAX_LINES:
        return None
    valid = [(line[line.index("{") :], prose) for line, prose in zip(lines, prose_of(lines), strict=True) if prose]
    steps = valid or _steps(lines if len(lines) > 1 else SENTENCE.split(lines[0]))
    if not 0 < len(steps) <= MAX_LINES:
        return None
    key = b"\n".join(b"Step %d: %b" % (k, body.encode()) for k, (body, _) in enumerate(steps, 1))
    orc = b"\n".join(b"Step %d: %b" % (k, one_line(prose)) for k, (_, prose) in enumerate(steps, 1))
    sections = b"<think></think>\n<key>\n%b\n</key>\n<orc>\n%b\n</orc>\n<note></note>" % (key, orc)
    return sections, len(steps)


def _steps(sentences: Sequence[str]) -> list[tuple[str, str]]:
    steps = []
    for sentence in sentences:
        prose = MARKER.sub("", sentence.strip(), count=1)
        if verb := VERB.search(prose):
            step = {"action": verb.group().lower(), "objects": [], "parameters": []}
            steps.append((json.dumps(step, ensure_ascii=False), prose))
    return steps

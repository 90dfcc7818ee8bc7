"""Repairs a response that fails a gate, one fault at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ....kernels.reading.text_spans import ABSENT
from ...settings import ScoreSettings
from ..case import Case
from ..coverage import coverages
from ..numbers import first_n
from ..reading import Reading, read_response
from ..text import Text
from ..verdict import BAD_LINES
from .candidates import Edit, draft_of

__all__ = ["repair"]

MAX_ROUNDS = 12
"""Faults that are repaired at most; each tag may be one."""

TAGS = ((b"</think>", b"<key>"), (b"</key>", b"<orc>"), (b"</orc>", b"<note>"))


class Repair(NamedTuple):
    """The repair of one fault: what it does, the changed response, and the steps concerned."""

    text: str
    response: bytes
    steps: Sequence[int] = ()


def repair(case: Case) -> Edit | None:
    """Repair the response until it passes the gates; None if that is impossible without new content."""
    texts: list[str] = []
    steps: list[int] = []
    response, reason = case.response, case.reason
    for _ in range(MAX_ROUNDS):
        if reason == "ok":
            return Edit("mend", "; ".join(dict.fromkeys(texts)), sorted(set(steps)), [], response)
        found = _repair_once(response, reason, case.settings)
        if found is None or found.response == response:
            return None
        texts.append(found.text)
        steps += found.steps
        response = found.response
        reason = str(case.rescored([response]).reasons[0])
    return None


def _repair_once(response: bytes, reason: str, settings: ScoreSettings) -> Repair | None:
    """Repair one fault; None if it cannot be repaired."""
    if reason == "think_not_opened":
        return Repair("Begin with `<think>`", b"<think>" + response)
    if reason in ("too_long", "no_steps"):
        return None
    reading = read_response(Text(response), settings.think_prefilled)
    if reason == "missing_sections":
        return _tag(response, reading)
    if reason in BAD_LINES:
        return _without_bad_lines(reading)
    if reason == "low_coverage":
        return _with_missing_words(reading, settings.min_coverage)
    if not reading.lines:
        return None
    if reason == "key_numbering":
        return _renumbered("key", reading, [(line.start, line.body) for line in reading.lines])
    if reason == "orc_numbering":
        starts = [(reading.text.content.rfind(b"\n", 0, prose.body) + 1, prose.body) for prose in reading.prose]
        return _renumbered("orc", reading, starts)
    return _with_equal_counts(reading)


def _tag(response: bytes, reading: Reading) -> Repair | None:
    """Insert the first missing tag where it belongs, or remove the text between two adjacent sections."""
    lower = response.lower()
    if reading.sections[0][0] == ABSENT:
        start = lower.find(b"<key>")
        if start < 0:
            return None
        return Repair("Begin with `<think></think>`", b"<think></think>" + response[start:])
    start = reading.sections[reading.whole][0]
    if reading.whole == len(TAGS):
        return Repair("Close `<note>`", response + b"</note>")
    closing, opening = TAGS[reading.whole]
    close, open_ = lower.find(closing, start), lower.find(opening, start)
    if close >= 0 and open_ > close:
        close = lower.rfind(closing, start, open_)
        text = f"Leave nothing between `{closing.decode()}` and `{opening.decode()}`"
        return Repair(text, response[: close + len(closing)] + response[open_:])
    if open_ >= 0:
        text = f"Write `{closing.decode()}` before `{opening.decode()}`"
        return Repair(text, response[:open_] + closing + response[open_:])
    if close >= 0:
        end = close + len(closing)
        return Repair(f"Open `{opening.decode()}`", response[:end] + opening + response[end:])
    if opening == b"<note>":
        return Repair("Close `<orc>` and write `<note></note>`", response + closing + opening + b"</note>")
    return None


def _without_bad_lines(reading: Reading) -> Repair | None:
    """Drop the invalid lines, and their prose if there are as many prose steps as lines."""
    bad = [k for k, line in enumerate(reading.lines, 1) if line.status != "ok"]
    if not bad or len(bad) == len(reading.lines):
        return None
    text = f"Mend or drop the lines of <key> that are no valid step (here: dropped {first_n(bad, 8)})"
    if len(reading.lines) != len(reading.prose):
        reading = replace(reading, lines=reading.valid)
    return Repair(text, draft_of(reading).render(), bad)


def _renumbered(section: str, reading: Reading, steps: Sequence[tuple[int, int]]) -> Repair:
    """Renumber the `Step N:` of one section, each between a start and an end, and change nothing else."""
    content = reading.text.content
    lower, pieces, pos = content.lower(), [], 0
    for k, (start, body) in enumerate(steps, 1):
        pieces += [content[pos : lower.rfind(b"step", start, body)], b"Step %d:" % k]
        pos = body
    return Repair(f"Number the steps of <{section}> 1, 2, 3, …", b"".join([*pieces, content[pos:]]))


def _with_equal_counts(reading: Reading) -> Repair:
    """Equalise the number of prose and key steps: drop extra ones, write missing ones."""
    keys, prose = len(reading.lines), len(reading.prose)
    if prose > keys:
        text = f"Drop the prose steps {keys + 1} to {prose}" if prose > keys + 1 else f"Drop the prose step {prose}"
        return Repair(text, draft_of(reading).render())
    missing = list(range(prose + 1, keys + 1))
    text = f"Write prose for the steps {first_n(missing, 8)}"
    return Repair(text, draft_of(reading).render(), missing)


def _with_missing_words(reading: Reading, min_coverage: float) -> Repair | None:
    """Add the missing phrases to the prose of every step whose coverage is too low."""
    draft = draft_of(reading)
    steps, changed, texts = list(draft.steps), [], []
    for k, (line, found) in enumerate(zip(reading.lines, coverages(reading, min_coverage), strict=True), 1):
        if found is None or found.enough:
            continue
        unsaid = [phrase.text for phrase in line.phrases if not set(found.uncovered).isdisjoint(phrase.words)]
        steps[k - 1] = steps[k - 1].with_phrases(unsaid)
        changed.append(k)
        texts.append(f"Say {first_n([f'“{word}”' for word in found.uncovered], 6)} in the prose of step {k}")
    return Repair("; ".join(texts[:6]), draft.render(steps), changed) if changed else None

"""Repairs a response that fails a gate, one fault at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....kernels.reading.text_spans import ABSENT
from ...scoring.scorer import Scorer
from ..coverage import coverages
from ..numbers import first_n
from ..reading import Reading, read_response
from ..text import Text
from .candidates import Edit, unsaid_phrases
from .drafts import draft_of

__all__ = ["repair"]

MAX_ROUNDS = 12
"""Faults that are repaired at most; each tag may be one."""

BAD_LINES = ("bad_step_line", "bad_step_json", "bad_step_schema")
TAGS = ((b"</think>", b"<key>"), (b"</key>", b"<orc>"), (b"</orc>", b"<note>"))


def repair(response: bytes, reason: str, scorer: Scorer, reason_of: Callable[[bytes], str]) -> Edit | None:
    """Repair the response until it passes the gates; None if that is impossible without new content.

    reason: of `response`. reason_of: returns the reason of another response.
    """
    texts: list[str] = []
    steps: list[int] = []
    for _ in range(MAX_ROUNDS):
        if reason == "ok":
            return Edit("mend", "; ".join(dict.fromkeys(texts)), sorted(set(steps)), [], response)
        found = _repair_once(response, reason, scorer)
        if found is None or found.response == response:
            return None
        texts.append(found.text)
        steps += found.steps
        response = found.response
        reason = reason_of(response)
    return None


def _repair_once(response: bytes, reason: str, scorer: Scorer) -> Edit | None:
    """Repair one fault; None if it cannot be repaired."""
    settings = scorer.settings
    if reason == "think_not_opened":
        return Edit("mend", "Begin with `<think>`", [], [], b"<think>" + response)
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
    changed = {
        "key_numbering": "Number the steps of <key> 1, 2, 3, …",
        "orc_numbering": "Number the steps of <orc> 1, 2, 3, …",
    }
    if reason in changed:
        return Edit("mend", changed[reason], [], [], _renumbered(reading, reason))
    return _with_equal_counts(reading)


def _tag(response: bytes, reading: Reading) -> Edit | None:
    """Insert the first missing tag where it belongs, or remove the text between two adjacent sections."""
    lower = response.lower()
    if reading.sections[0][0] == ABSENT:
        start = lower.find(b"<key>")
        if start < 0:
            return None
        return Edit("mend", "Begin with `<think></think>`", [], [], b"<think></think>" + response[start:])
    start = reading.sections[reading.whole][0]
    if reading.whole == len(TAGS):
        return Edit("mend", "Close `<note>`", [], [], response + b"</note>")
    closing, opening = TAGS[reading.whole]
    close, open_ = lower.find(closing, start), lower.find(opening, start)
    if close >= 0 and open_ > close:
        close = lower.rfind(closing, start, open_)
        text = f"Leave nothing between `{closing.decode()}` and `{opening.decode()}`"
        return Edit("mend", text, [], [], response[: close + len(closing)] + response[open_:])
    if open_ >= 0:
        text = f"Write `{closing.decode()}` before `{opening.decode()}`"
        return Edit("mend", text, [], [], response[:open_] + closing + response[open_:])
    if close >= 0:
        end = close + len(closing)
        return Edit("mend", f"Open `{opening.decode()}`", [], [], response[:end] + opening + response[end:])
    if opening == b"<note>":
        return Edit(
            "mend", "Close `<orc>` and write `<note></note>`", [], [], response + closing + opening + b"</note>"
        )
    return None


def _without_bad_lines(reading: Reading) -> Edit | None:
    """Drop the invalid lines, and their prose if there are as many prose steps as lines."""
    bad = [k for k, line in enumerate(reading.lines, 1) if line.status != "ok"]
    if not bad or len(bad) == len(reading.lines):
        return None
    text = f"Mend or drop the lines of <key> that are no valid step (here: dropped {first_n([str(k) for k in bad], 8)})"
    if len(reading.lines) != len(reading.prose):
        reading = replace(reading, lines=reading.valid)
    return Edit("mend", text, bad, [], draft_of(reading).render())


def _renumbered(reading: Reading, reason: str) -> bytes:
    """Renumber the steps of one section, and change nothing else."""
    content = reading.text.content
    steps: Sequence[tuple[int, int]] = (
        [(line.start, line.body) for line in reading.lines]
        if reason == "key_numbering"
        else [(content.rfind(b"\n", 0, prose.body) + 1, prose.body) for prose in reading.prose]
    )
    pieces, pos = [], 0
    for k, (start, body) in enumerate(steps, 1):
        pieces += [content[pos : _number_start(content, start, body)], b"Step %d:" % k]
        pos = body
    return b"".join([*pieces, content[pos:]])


def _number_start(content: bytes, start: int, body: int) -> int:
    """Return the position of the `Step N:` that ends at `body`."""
    return content.lower().rfind(b"step", start, body)


def _with_equal_counts(reading: Reading) -> Edit | None:
    """Equalise the number of prose and key steps: drop extra ones, write missing ones."""
    keys, prose = len(reading.lines), len(reading.prose)
    if prose > keys:
        text = f"Drop the prose steps {keys + 1} to {prose}" if prose > keys + 1 else f"Drop the prose step {prose}"
        return Edit("mend", text, [], [], draft_of(reading).render())
    missing = list(range(prose + 1, keys + 1))
    text = f"Write prose for the steps {first_n([str(k) for k in missing], 8)}"
    return Edit("mend", text, missing, [], draft_of(reading).render())


def _with_missing_words(reading: Reading, min_coverage: float) -> Edit | None:
    """Add the missing phrases to the prose of every step whose coverage is too low."""
    draft = draft_of(reading)
    steps, changed, texts = list(draft.steps), [], []
    for k, (line, found) in enumerate(zip(reading.lines, coverages(reading, min_coverage), strict=True)):
        if found is None or found.enough:
            continue
        steps[k] = steps[k].with_phrases(unsaid_phrases(line, found.uncovered))
        changed.append(k + 1)
        texts.append(f"Say {first_n([f'“{word}”' for word in found.uncovered], 6)} in the prose of step {k + 1}")
    return Edit("mend", "; ".join(texts[:6]), changed, [], draft.with_steps(steps).render()) if changed else None

"""Mending a response behind a closed gate: one fault after another, as a patient author would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ....kernels.reading.text_spans import ABSENT
from ...scoring.scorer import Scorer
from ..coverage import coverages
from ..numbers import few
from ..reading import Reading, read_response
from ..text import Text
from .candidates import Edit, unsaid_phrases
from .drafts import draft_of

__all__ = ["mended"]

MAX_ROUNDS = 12
"""Faults that are mended one after another; each tag may be one."""

BAD_LINES = ("bad_step_line", "bad_step_json", "bad_step_schema")
TAGS = ((b"</think>", b"<key>"), (b"</key>", b"<orc>"), (b"</orc>", b"<note>"))


def mended(response: bytes, reason: str, scorer: Scorer, reason_of: Callable[[bytes], str]) -> Edit | None:
    """The response with its gates open, and what that took; None where it cannot be mended without new content.

    reason: of `response`; reason_of: tells it of another one.
    """
    texts: list[str] = []
    steps: list[int] = []
    for _ in range(MAX_ROUNDS):
        if reason == "ok":
            return Edit("mend", "; ".join(dict.fromkeys(texts)), sorted(set(steps)), [], response)
        found = _mend(response, reason, scorer)
        if found is None or found.response == response:
            return None
        texts.append(found.text)
        steps += found.steps
        response = found.response
        reason = reason_of(response)
    return None


def _mend(response: bytes, reason: str, scorer: Scorer) -> Edit | None:
    """One fault less, or None."""
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
    """The first tag that lacks, put where it belongs; or the text between two tags that follow each other left out."""
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
    """The valid steps alone; the prose of a bad one goes with it where there is as much prose as lines."""
    bad = [k for k, line in enumerate(reading.lines, 1) if line.status != "ok"]
    if not bad or len(bad) == len(reading.lines):
        return None
    text = f"Mend or drop the lines of <key> that are no valid step (here: dropped {few([str(k) for k in bad], 8)})"
    if len(reading.lines) != len(reading.prose):
        reading = replace(reading, lines=reading.valid)
    return Edit("mend", text, bad, [], draft_of(reading).written())


def _renumbered(reading: Reading, reason: str) -> bytes:
    """The response with one section numbered anew, and nothing else changed."""
    content = reading.text.content
    steps: Sequence[tuple[int, int]] = (
        [(line.start, line.body) for line in reading.lines]
        if reason == "key_numbering"
        else [(content.rfind(b"\n", 0, prose.body) + 1, prose.body) for prose in reading.prose]
    )
    pieces, at = [], 0
    for k, (start, body) in enumerate(steps, 1):
        pieces += [content[at : _number_at(content, start, body)], b"Step %d:" % k]
        at = body
    return b"".join([*pieces, content[at:]])


def _number_at(content: bytes, start: int, body: int) -> int:
    """Where the `Step N:` that ends at `body` begins."""
    return content.lower().rfind(b"step", start, body)


def _with_equal_counts(reading: Reading) -> Edit | None:
    """As many prose steps as key steps: those too many are dropped, those that lack are written."""
    keys, prose = len(reading.lines), len(reading.prose)
    if prose > keys:
        text = f"Drop the prose steps {keys + 1} to {prose}" if prose > keys + 1 else f"Drop the prose step {prose}"
        return Edit("mend", text, [], [], draft_of(reading).written())
    lacking = list(range(prose + 1, keys + 1))
    text = f"Write prose for the steps {few([str(k) for k in lacking], 8)}"
    return Edit("mend", text, lacking, [], draft_of(reading).written())


def _with_missing_words(reading: Reading, min_coverage: float) -> Edit | None:
    """The prose of every step that lacks too much says the phrases that it lacks."""
    draft = draft_of(reading)
    steps, changed, texts = list(draft.steps), [], []
    for k, (line, found) in enumerate(zip(reading.lines, coverages(reading, min_coverage), strict=True)):
        if found is None or found.enough:
            continue
        steps[k] = steps[k].saying(unsaid_phrases(line, found.uncovered))
        changed.append(k + 1)
        texts.append(f"Say {few([f'“{word}”' for word in found.uncovered], 6)} in the prose of step {k + 1}")
    return Edit("mend", "; ".join(texts[:6]), changed, [], draft.with_steps(steps).written()) if changed else None

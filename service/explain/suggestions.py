"""What would change a reward most: candidate edits are made, rescored, and ranked by their gain.

A response that fails a gate is repaired instead, one fault at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...kernels.reading.text_spans import ABSENT
from ..scoring.scores import Scores
from ..settings import ScoreSettings
from .candidates import Edit, draft_of, edits_of
from .case import Case
from .coverage import coverages
from .numbers import first_n, format_delta, format_number
from .reading import Reading, read_response
from .schema import Change, Explanation, Kind, Suggestion
from .text import Text
from .verdict import BAD_LINES

__all__ = ["suggestions_for"]

MAX_CANDIDATES = 256
MAX_CANDIDATE_BYTES = 8 << 20
"""Candidates, and bytes of them, that are rescored together."""

MAX_SHOWN_BYTES = 64 << 10
"""Longest changed response that a suggestion includes."""

MAX_ROUNDS = 12
"""Faults that are repaired at most; each tag may be one."""

TAGS = ((b"</think>", b"<key>"), (b"</key>", b"<orc>"), (b"</orc>", b"<note>"))

FIX: Kind = "mend"
"""Kind of an edit that repairs a fault, by its name in replies."""

OF_MANY_STEPS = ("add_steps", "drop_steps", "replace_steps", "sort_steps")


def suggestions_for(case: Case, explanation: Explanation, n: int) -> list[Suggestion]:
    """Return at most n changes that raise the reward, the largest gain first; of equal gains the smaller change.

    A repair that passes the gates is included even if the reward stays the same.
    """
    if not n or case.reward >= explanation.largest_reward:
        return []
    edits = _candidates(case, explanation)
    found = _rescored(case, edits)
    if case.reason == "think_not_opened":
        found += _with_setting(case)
    found.sort(key=lambda suggestion: (-suggestion.gain, len(suggestion.steps) + len(suggestion.reference_steps)))
    # Drop changes of many steps unless they gain more than twice as much as the best change of one or two: copying the
    # reference always gains most, and explains least.
    best = max((suggestion.gain for suggestion in found if suggestion.kind not in OF_MANY_STEPS), default=0.0)
    return [one for one in found if one.kind not in OF_MANY_STEPS or one.gain > 2 * best][:n]


def _candidates(case: Case, explanation: Explanation) -> list[Edit]:
    if case.reason != "ok":
        repaired = _repaired(case)
        return [repaired] if repaired is not None else []
    assert case.reading is not None
    edits: list[Edit] = []
    total = 0
    for edit in edits_of(explanation, case.reading, case.expected):
        total += len(edit.response)
        if edits and (len(edits) == MAX_CANDIDATES or total > MAX_CANDIDATE_BYTES):
            break
        edits.append(edit)
    return edits


def _rescored(case: Case, edits: list[Edit]) -> list[Suggestion]:
    """Rescore the edits and return those that raise the reward, or repair the response."""
    scores = case.rescored([edit.response for edit in edits])
    return [
        _suggestion(case, edit, scores, row)
        for row, edit in enumerate(edits)
        if scores.rewards[row] > case.reward or (edit.kind == FIX and scores.rewards[row] == case.reward)
    ]


def _suggestion(case: Case, edit: Edit, scores: Scores, row: int) -> Suggestion:
    reward = float(scores.rewards[row])
    after = {name: float(column[row]) for name, column in scores.components.items()}
    changes = [
        Change(name=name, before=before, after=after[name])
        for name, before in case.components.items()
        if after[name] != before
    ]
    return Suggestion(
        kind=edit.kind,
        text=f"{edit.text}: {_effects(edit.kind, changes)}, reward {format_delta(reward - case.reward)}.",
        steps=list(edit.steps),
        reference_steps=list(edit.reference_steps),
        gain=reward - case.reward,
        reward=reward,
        reason=str(scores.reasons[row]),
        changes=changes,
        config={},
        response=edit.response.decode() if len(edit.response) <= MAX_SHOWN_BYTES else None,
    )


def _effects(kind: str, changes: list[Change]) -> str:
    """Say which parts change, or that the response now passes the gates."""
    named = {change.name: change for change in changes}
    if "format" in named or "consistency" in named:
        return "the gates are open"
    shown = ("order", "content", "step_gap", *(("mean_words",) if kind == "shorten_prose" else ()))
    parts = [named[name] for name in shown if name in named] or [named["score"]]
    return ", ".join(
        f"{part.name.replace('_', ' ')} {format_number(part.before)} → {format_number(part.after)}" for part in parts
    )


def _with_setting(case: Case) -> list[Suggestion]:
    """Suggest `think_prefilled`: the response is probably the rest of an answer that the prompt has begun."""
    config = {"think_prefilled": True}
    scorer = case.scorer.with_overrides(config)
    scores = case._replace(scorer=scorer).rescored([case.response])
    if scores.rewards[0] <= case.reward:
        return []
    edit = Edit("setting", "Set think_prefilled", case.response)
    return [_suggestion(case, edit, scores, 0).model_copy(update={"config": config, "response": None})]


def _repaired(case: Case) -> Edit | None:
    """Repair the response until it passes the gates; None if that is impossible without new content."""
    texts: list[str] = []
    steps: list[int] = []
    response, reason = case.response, case.reason
    for _ in range(MAX_ROUNDS):
        if reason == "ok":
            return Edit(FIX, "; ".join(dict.fromkeys(texts)), response, sorted(set(steps)))
        found = _repair_once(response, reason, case.settings)
        if found is None or found.response == response:
            return None
        texts.append(found.text)
        steps += found.steps
        response = found.response
        reason = str(case.rescored([response]).reasons[0])
    return None


def _repair_once(response: bytes, reason: str, settings: ScoreSettings) -> Edit | None:
    """Repair one fault; None if it cannot be repaired."""
    if reason == "think_not_opened":
        return Edit(FIX, "Begin with `<think>`", b"<think>" + response)
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


def _tag(response: bytes, reading: Reading) -> Edit | None:
    """Insert the first missing tag where it belongs, or remove the text between two adjacent sections."""
    lower = response.lower()
    if reading.sections[0][0] == ABSENT:
        start = lower.find(b"<key>")
        if start < 0:
            return None
        return Edit(FIX, "Begin with `<think></think>`", b"<think></think>" + response[start:])
    start = reading.sections[reading.whole][0]
    if reading.whole == len(TAGS):
        return Edit(FIX, "Close `<note>`", response + b"</note>")
    closing, opening = TAGS[reading.whole]
    close, open_ = lower.find(closing, start), lower.find(opening, start)
    if close >= 0 and open_ > close:
        close = lower.rfind(closing, start, open_)
        text = f"Leave nothing between `{closing.decode()}` and `{opening.decode()}`"
        return Edit(FIX, text, response[: close + len(closing)] + response[open_:])
    if open_ >= 0:
        text = f"Write `{closing.decode()}` before `{opening.decode()}`"
        return Edit(FIX, text, response[:open_] + closing + response[open_:])
    if close >= 0:
        end = close + len(closing)
        return Edit(FIX, f"Open `{opening.decode()}`", response[:end] + opening + response[end:])
    if opening == b"<note>":
        return Edit(FIX, "Close `<orc>` and write `<note></note>`", response + closing + opening + b"</note>")
    return None


def _without_bad_lines(reading: Reading) -> Edit | None:
    """Drop the invalid lines, and their prose if there are as many prose steps as lines."""
    bad = [k for k, line in enumerate(reading.lines, 1) if line.status != "ok"]
    if not bad or len(bad) == len(reading.lines):
        return None
    text = f"Mend or drop the lines of <key> that are no valid step (here: dropped {first_n(bad, 8)})"
    if len(reading.lines) != len(reading.prose):
        reading = replace(reading, lines=reading.valid)
    return Edit(FIX, text, draft_of(reading).render(), bad)


def _renumbered(section: str, reading: Reading, steps: Sequence[tuple[int, int]]) -> Edit:
    """Renumber the `Step N:` of one section, each between a start and an end, and change nothing else."""
    content = reading.text.content
    lower, pieces, pos = content.lower(), [], 0
    for k, (start, body) in enumerate(steps, 1):
        pieces += [content[pos : lower.rfind(b"step", start, body)], b"Step %d:" % k]
        pos = body
    return Edit(FIX, f"Number the steps of <{section}> 1, 2, 3, …", b"".join([*pieces, content[pos:]]))


def _with_equal_counts(reading: Reading) -> Edit:
    """Equalise the number of prose and key steps: drop extra ones, write missing ones."""
    keys, prose = len(reading.lines), len(reading.prose)
    if prose > keys:
        text = f"Drop the prose steps {keys + 1} to {prose}" if prose > keys + 1 else f"Drop the prose step {prose}"
        return Edit(FIX, text, draft_of(reading).render())
    missing = list(range(prose + 1, keys + 1))
    text = f"Write prose for the steps {first_n(missing, 8)}"
    return Edit(FIX, text, draft_of(reading).render(), missing)


def _with_missing_words(reading: Reading, min_coverage: float) -> Edit | None:
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
    return Edit(FIX, "; ".join(texts[:6]), draft.render(steps), changed) if changed else None

"""Repairs of responses that fail a gate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import NamedTuple

from ...kernels.reading.response import ABSENT
from ..settings import ScoreSettings
from ..wording import first_n
from .candidates import draft_of, listed_steps, prose_of, step_of
from .case import Case
from .edits import MAX_LINE, Draft, DraftStep, LineRepair, line_repairs, one_line, skeleton_of
from .prose import added_by, coverages, marks_in
from .reading import Reading, Text, parsed_lines, read_response, spoken_of
from .schema import Kind
from .verdict import ANY_TAG, BAD_LINES

FIX: Kind = "mend"
SKELETON: Kind = "skeleton"
MAX_ROUNDS = 12  # faults that are repaired at most; each tag may be one
MAX_REPAIRED_LINES = 16  # other invalid lines are deleted
MAX_VALID = 24  # repairs of one line that are compared by their reward
MAX_COMPARED_BYTES = 4 << 20  # of the responses of all lines
MAX_JOINED = 32
TAGS = ((b"</think>", b"<key>"), (b"</key>", b"<orc>"), (b"</orc>", b"<note>"))


class Repair(NamedTuple):
    """A changed response: what was done, as sentences without a full stop, and the steps concerned."""

    text: str
    response: bytes
    steps: Sequence[int] = ()
    kind: Kind = FIX


def repaired(case: Case) -> Repair | None:
    """Repair the response until it passes the gates; None if that is impossible without new content."""
    texts: list[str] = []
    steps: list[int] = []
    kinds: set[Kind] = set()
    response, reason = case.response, case.reason
    for _ in range(MAX_ROUNDS):
        if reason == "ok":
            kind = SKELETON if SKELETON in kinds else FIX
            return Repair(_sentence(list(dict.fromkeys(texts))), response, sorted(set(steps)), kind)
        repair = _repair_once(case, response, reason)
        if repair is None or repair.response == response:
            return None
        texts.append(repair.text)
        steps += repair.steps
        kinds.add(repair.kind)
        response = repair.response
        reason = str(case.rescored([response]).reasons[0])
    return None


def _repair_once(case: Case, response: bytes, reason: str) -> Repair | None:
    if reason == "think_not_opened":
        return Repair("Begin with <think>", b"<think>" + response)
    if reason in ("too_long", "no_steps"):
        return None
    if reason == "missing_sections" and not ANY_TAG.search(response):
        return _with_sections(response)
    reading = read_response(Text(response), case.settings.think_prefilled)
    if reason == "missing_sections":
        return _tag(response, reading)
    if reason in BAD_LINES:
        return _with_valid_lines(case, reading)
    if reason == "low_coverage":
        return _with_missing_words(reading, case.settings)
    if reason in ("added_numbers", "added_words"):
        return _without_added(reading, reason, case.settings)
    if not reading.lines:
        return None
    if reason == "key_numbering":
        return _renumbered("key", reading, [(line.start, line.body) for line in reading.lines])
    if reason == "orc_numbering":
        starts = [(reading.text.content.rfind(b"\n", 0, prose.body) + 1, prose.body) for prose in reading.prose]
        return _renumbered("orc", reading, starts)
    return _with_equal_counts(reading)


def _with_sections(response: bytes) -> Repair | None:
    def prose_of(lines: Sequence[str]) -> list[str | None]:
        text = Text("\n".join(lines).encode())
        parsed = parsed_lines(text)
        if len(parsed) != len(lines):  # a line end that only Python knows
            return [None] * len(lines)
        return [step_of(line, text.content).prose.decode() if line.status == "ok" else None for line in parsed]

    skeleton = skeleton_of(response.decode(), prose_of)
    if skeleton is None:
        return None
    text = "Write the four sections; here with one step per line of the text"
    written, steps = skeleton
    return Repair(text, written, range(1, steps + 1), SKELETON)


def _tag(response: bytes, reading: Reading) -> Repair | None:
    lower = response.lower()
    if reading.sections[0][0] == ABSENT:
        start = lower.find(b"<key>")
        if start < 0:
            return None
        return Repair("Begin with <think></think>", b"<think></think>" + response[start:])
    start = reading.sections[reading.whole][0]
    if reading.whole == len(TAGS):
        return Repair("Add </note> at the end", response + b"</note>")
    closing, opening = TAGS[reading.whole]
    close, open_ = lower.find(closing, start), lower.find(opening, start)
    if close >= 0 and open_ > close:
        close = lower.rfind(closing, start, open_)
        text = f"Delete the text between {closing.decode()} and {opening.decode()}"
        return Repair(text, response[: close + len(closing)] + response[open_:])
    if open_ >= 0:
        text = f"Insert {closing.decode()} before {opening.decode()}"
        return Repair(text, response[:open_] + closing + response[open_:])
    if close >= 0:
        end = close + len(closing)
        return Repair(f"Insert {opening.decode()} after {closing.decode()}", response[:end] + opening + response[end:])
    if opening == b"<note>":
        return Repair("Add </orc><note></note> at the end", response + closing + opening + b"</note>")
    return None


Option = tuple[str, DraftStep]


def _with_valid_lines(case: Case, reading: Reading) -> Repair | None:
    """Repair the invalid lines, and delete the others; prose belongs to a line, or to a valid line, by position."""
    slots = _slots(reading)
    valid = [place for place, (_, options) in enumerate(slots) if options]
    if not valid:
        return None
    choices = []
    content, aligned = reading.text.content, len(slots) == len(reading.prose)
    for position, place in enumerate(valid):
        options, number = slots[place][1], place if aligned else position
        if number < len(reading.prose):
            said = content[reading.prose[number].start : reading.prose[number].stop]
            options = [(text, step._replace(prose=said)) for text, step in options]
        choices.append(options)
    outer = draft_of(reading)
    chosen = [options[0] for options in choices]
    left = MAX_COMPARED_BYTES
    for number, options in enumerate(choices):
        left -= len(options) * len(content)
        if len(options) > 1 and left >= 0:
            chosen[number] = _best(case, outer, chosen, number, options)
    changed: dict[str, list[int]] = {}
    for place, (text, _) in zip(valid, chosen, strict=True):
        if text:
            changed.setdefault(text, []).append(slots[place][0])
    deleted = [k for k, options in slots if not options]
    done = [f"In {listed_steps(steps)}, {text}" for text, steps in changed.items()]
    if deleted:
        done.append(f"Delete invalid {listed_steps(deleted)}")
    steps = sorted([*deleted, *chain.from_iterable(changed.values())])
    return Repair(_sentence(done[:6]), outer.render([step for _, step in chosen]), steps)


def _best(case: Case, outer: Draft, chosen: Sequence[Option], number: int, options: Sequence[Option]) -> Option:
    steps = [step for _, step in chosen]
    responses = [outer.render([*steps[:number], step, *steps[number + 1 :]]) for _, step in options]
    return options[int(case.rescored(responses).rewards.argmax())]


def _slots(reading: Reading) -> list[tuple[int, list[Option]]]:
    slots: list[tuple[int, list[Option]]] = []
    tried = k = 0
    while k < len(reading.lines):
        line, options, count = reading.lines[k], [], 1
        if line.status == "ok":
            options = [("", step_of(line, reading.text.content))]
        elif tried < MAX_REPAIRED_LINES:
            tried += 1
            options, count = _options(reading, k)
        slots.append((k + 1, options))
        k += count
    return slots


def _options(reading: Reading, k: int) -> tuple[list[Option], int]:
    text, position = reading.text, k + 1
    run: list[str] = []
    length = 0
    for line in reading.lines[k : k + MAX_JOINED]:
        length += line.stop - line.start
        if run and (line.status == "ok" or line.number is not None or length > MAX_LINE):
            break
        run.append(text.part(line.start, line.stop))
    if "{" not in run[0]:
        return [], 1
    joined = _checked([LineRepair("write it on one line", " ".join(run[:count])) for count in range(2, len(run) + 1)])
    for count, option in enumerate(joined, 2):
        if option is not None:
            return [option], count
    first = list(line_repairs(run[0], position))
    inner = [
        LineRepair(f"{outer.text}; {repair.text}", repair.line)
        for outer in first[:3]
        for repair in islice(line_repairs(outer.line, position), 50)
    ]
    return [option for option in _checked([*first, *inner]) if option is not None][:MAX_VALID], 1


def _checked(repairs: Sequence[LineRepair]) -> list[Option | None]:
    text = Text("\n".join(repair.line for repair in repairs).encode())
    lines = parsed_lines(text) if repairs else []
    if len(lines) != len(repairs):
        return []
    return [
        (repair.text, step_of(line, text.content)) if line.status == "ok" else None
        for repair, line in zip(repairs, lines, strict=True)
    ]


def _renumbered(section: str, reading: Reading, steps: Sequence[tuple[int, int]]) -> Repair:
    content = reading.text.content
    lower, pieces, pos = content.lower(), [], 0
    for k, (start, body) in enumerate(steps, 1):
        pieces += [content[pos : lower.rfind(b"step", start, body)], b"Step %d:" % k]
        pos = body
    return Repair(f"Number the steps of <{section}> 1, 2, 3, …", b"".join([*pieces, content[pos:]]))


def _with_equal_counts(reading: Reading) -> Repair:
    keys, prose = len(reading.lines), len(reading.prose)
    if prose > keys:
        which = f"steps {keys + 1} to {prose}" if prose > keys + 1 else f"step {prose}"
        return Repair(f"Delete {which} of <orc>", draft_of(reading).render())
    missing = list(range(prose + 1, keys + 1))
    return Repair(f"Write {listed_steps(missing)} of <orc>", draft_of(reading).render(), missing)


def _with_missing_words(reading: Reading, settings: ScoreSettings) -> Repair | None:
    draft = draft_of(reading)
    steps, changed, texts = list(draft.steps), [], []
    for k, (line, coverage) in enumerate(zip(reading.lines, coverages(reading, settings), strict=True), 1):
        if coverage is None or coverage.enough:
            continue
        uncovered = set(coverage.uncovered)
        unsaid = [phrase.text for phrase in line.phrases if not uncovered.isdisjoint(phrase.words)]
        steps[k - 1] = steps[k - 1].with_phrases(unsaid)
        changed.append(k)
        texts.append(f"Write {first_n([f'“{word}”' for word in coverage.uncovered], 6)} in step {k} of <orc>")
    return Repair(_sentence(texts[:6]), draft.render(steps), changed) if changed else None


def _without_added(reading: Reading, reason: str, settings: ScoreSettings) -> Repair:
    """Delete the added numbers, or the words beyond their limit, each with the text around it up to the next spaces.

    New prose is written where that is not enough. The lines before the first step are deleted.
    """
    draft, limit = draft_of(reading), settings.max_added_words
    steps, changed, texts = list(draft.steps), [], []
    verb = "Delete" if reason == "added_numbers" else "Drop"
    pairs, count = list(zip(reading.lines, reading.prose, strict=True)), len(reading.lines)
    if reading.prose[0].limited != reading.prose[0].spoken:
        texts.append("Delete the lines before step 1 of <orc>")
    added = added_by([(line, prose.spoken) for line, prose in pairs], count, settings)
    for k, ((line, prose), own) in enumerate(zip(pairs, added, strict=True), 1):
        dropped = own.numbers if reason == "added_numbers" else own.beyond(limit) if own.fails(limit) else []
        if not dropped:
            continue
        text, kept, pos = reading.text.part(prose.start, prose.stop), [], 0
        for mark in marks_in(line, prose, text, dropped, count, settings).added:
            start, stop = mark.characters
            kept.append(text[pos:start])
            pos = stop
        said = one_line("".join([*kept, text[pos:]]).lstrip(" ,;:"))
        (left,) = added_by([(line, spoken_of([said.decode()])[0])], count, settings)
        if left.numbers if reason == "added_numbers" else left.fails(limit):
            said = prose_of(line)
        steps[k - 1] = steps[k - 1]._replace(prose=said)
        changed.append(k)
        texts.append(f"{verb} {first_n([f'“{text}”' for text in dropped], 6)} in step {k} of <orc>")
    return Repair(_sentence(texts[:6]), draft.render(steps), changed)


def _sentence(texts: Sequence[str]) -> str:
    return "; ".join([*texts[:1], *(text[0].lower() + text[1:] for text in texts[1:])])

"""Why a response failed, and characters that are invisible or look like others and kept it from being read."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...kernels.reading.response import ABSENT
from ..scoring.reference_reader import wrong_fields
from ..settings import ScoreSettings
from ..wording import first_n, format_number, format_reward, plural
from .edits import FIELDS, FRAMED
from .prose import Added
from .reading import KeyLine, Prose, Reading, Text, read_response
from .schema import Check, CheckName, Coverage, Failure, Gate, Place, Section

ANY_TAG = re.compile(rb"</?(?:think|key|orc|note)>", re.IGNORECASE)
MAX_NAME = 40

CHECKS: tuple[tuple[CheckName, Gate, tuple[str, ...]], ...] = (
    ("size", "format", ("too_long",)),
    ("sections", "format", ("think_not_opened", "missing_sections")),
    ("steps", "format", ("too_long",)),
    ("key_lines", "format", ("no_steps", "bad_step_line", "bad_step_json", "bad_step_schema")),
    ("key_numbering", "consistency", ("key_numbering",)),
    ("orc_numbering", "consistency", ("orc_numbering",)),
    ("step_count", "consistency", ("step_count",)),
    ("coverage", "consistency", ("low_coverage",)),
    ("added_numbers", "consistency", ("added_numbers",)),
    ("added_words", "consistency", ("added_words",)),
)
"""The last two are only made with their limits."""

AddedBySteps = Sequence[Added | None]

JUNCTIONS: tuple[tuple[Section, str], ...] = (
    ("think", "</think> directly followed by <key>"),
    ("key", "</key> directly followed by <orc>"),
    ("orc", "</orc> directly followed by <note>"),
    ("note", "</note>"),
)

BAD_LINES = {
    "bad_step_line": "Write every line of <key> as Step N: {…}, on one line, with nothing after the closing brace.",
    "bad_step_json": "Check quotes, commas, brackets and escapes: the braces contain one JSON object.",
    "bad_step_schema": "Use exactly the fields action (a string with at least one word), objects and parameters "
    "(arrays of strings).",
}

UNREADABLE = ("think_not_opened", "missing_sections", "no_steps", *BAD_LINES, "orc_numbering", "step_count")
"""The reasons whose cause may be a character that looks like another one, or like nothing."""


def checks_of(
    reason: str, reading: Reading | None, coverage: float, added: AddedBySteps, settings: ScoreSettings
) -> list[Check]:
    failed = failed_check(reason, reading)
    details = _details(reading, coverage, added, settings)
    checks = []
    limits = {"added_numbers": settings.max_added_numbers, "added_words": settings.max_added_words}
    for k, (name, gate, _) in enumerate(CHECKS):
        if limits.get(name, 0) is None:
            continue
        detail = details[name] if k <= failed else "not checked"
        checks.append(Check(name=name, gate=gate, passed=None if k > failed else k < failed, detail=detail))
    return checks


def failed_check(reason: str, reading: Reading | None) -> int:
    if reason == "ok":
        return len(CHECKS)
    if reason == "too_long":
        return 0 if reading is None else 2
    return next(k for k, (_, _, reasons) in enumerate(CHECKS) if reason in reasons)


def _details(
    reading: Reading | None, coverage: float, added: AddedBySteps, settings: ScoreSettings
) -> dict[CheckName, str]:
    limit = f"{settings.max_response_bytes:,}"
    if reading is None:
        return {"size": f"more than {limit} bytes"}
    lines, prose = reading.key_lines, reading.prose_steps
    valid, needed = len(reading.valid), format_number(settings.min_coverage)
    return {
        "size": f"{len(reading.text.content):,} bytes, at most {limit}",
        "sections": "think, key, orc and note"
        if reading.whole == len(JUNCTIONS)
        else "not all four sections are found",
        "steps": f"{plural(lines, 'line')} in <key>, {plural(prose, 'step')} in <orc>, at most {settings.max_steps:,}",
        "key_lines": f"{plural(valid, 'valid step')} in {plural(lines, 'line')}",
        "key_numbering": f"<key> is numbered {_numbers(reading.lines)}",
        "orc_numbering": f"<orc> is numbered {_numbers(reading.prose)}",
        "step_count": f"{plural(lines, 'step')} in <key>, {prose:,} in <orc>",
        "coverage": f"at least {format_reward(coverage)} of each step's words; {needed} is needed",
        "added_numbers": f"{plural(total_numbers(added), 'number')} only in the prose, at most "
        f"{settings.max_added_numbers}",
        "added_words": _words_detail(added, settings),
    }


def total_numbers(added: AddedBySteps) -> int:
    return sum(len(own.numbers or ()) for own in added if own is not None)


def most_words(added: AddedBySteps) -> int:
    return max((len(own.words or ()) for own in added if own is not None), default=0)


def _words_detail(added: AddedBySteps, settings: ScoreSettings) -> str:
    negations = sum(len(own.negations) for own in added if own is not None)
    said = plural(negations, "negation") if negations else "no negation"
    return (
        f"{plural(most_words(added), 'word')} only in the prose of a step, at most {settings.max_added_words}; {said}"
    )


def _numbers(steps: Sequence[KeyLine | Prose]) -> str:
    numbers = [str(step.number) for step in steps]
    if not numbers:
        return "nowhere: it has no steps"
    if numbers == [str(k) for k in range(1, len(numbers) + 1)]:
        return f"1 to {len(numbers)}" if len(numbers) > 1 else "1"
    return first_n(numbers, 12)


class Cause(NamedTuple):
    message: str
    remedy: str
    section: Section | None = None
    step: int | None = None
    place: Place | None = None


def failure_of(
    reason: str,
    reading: Reading | None,
    coverages: Sequence[Coverage | None],
    added: AddedBySteps,
    settings: ScoreSettings,
) -> Failure | None:
    if reason == "ok":
        return None
    gate = CHECKS[failed_check(reason, reading)][1]
    cause = _cause(reason, reading, coverages, added, settings)
    if reading is not None and reason in UNREADABLE:
        cause = cause._replace(message=cause.message + look_alikes(reading, settings.think_prefilled))
    return Failure(reason=reason, gate=gate, **cause._asdict())


def _cause(
    reason: str,
    reading: Reading | None,
    coverages: Sequence[Coverage | None],
    added: AddedBySteps,
    settings: ScoreSettings,
) -> Cause:
    if reading is None:
        message = f"The response has more than {settings.max_response_bytes:,} bytes of UTF-8."
        return Cause(message, "Write a shorter response; the limit is the setting max_response_bytes.")
    if reason == "too_long":
        section: Section = "key" if reading.key_lines > settings.max_steps else "orc"
        message = f"The <{section}> section has more than {settings.max_steps:,} steps."
        return Cause(message, "Write fewer steps; the limit is the setting max_steps.", section)
    if reason in BAD_LINES:
        return _bad_line(reason, reading)
    if reason == "key_numbering":
        return _numbering("key", reading.lines, reading)
    if reason == "orc_numbering":
        return _numbering("orc", reading.prose, reading)
    if reason == "step_count":
        return _step_count(reading)
    if reason == "low_coverage":
        return _low_coverage(reading, coverages, settings)
    if reason == "added_numbers":
        return _added_numbers(reading, added, settings)
    if reason == "added_words":
        return _added_words(reading, added, settings)
    if reason == "no_steps":
        return Cause("The <key> section has no steps.", "Write one step per line, as Step N: {…}.", "key")
    return _missing_sections(reason, reading, settings)


def _missing_sections(reason: str, reading: Reading, settings: ScoreSettings) -> Cause:
    if reason == "think_not_opened":
        return Cause(
            "<think> is missing. If the response began with it, all four sections would be found.",
            "If the chat template ends the prompt with <think>, set think_prefilled; otherwise begin with <think>.",
            "think",
            place=reading.text.place(0, 0),
        )
    if reading.sections[0][0] == ABSENT:
        remedy = "Write <think>…</think><key>…</key><orc>…</orc><note>…</note>."
        missing = "<think> is missing." if ANY_TAG.search(reading.text.content) else "the response has no tags."
        return Cause(f"The four sections are not found: {missing}", remedy, "think")
    section, ending = JUNCTIONS[reading.whole]
    start = reading.sections[reading.whole][0]
    message = f"The <{section}> section does not end: {ending} is missing."
    remedy = "End each section and begin the next one with only whitespace between them, as in </think><key>."
    return Cause(message, remedy, section, place=reading.text.place(start, start))


def _bad_line(reason: str, reading: Reading) -> Cause:
    k, line = next((k, line) for k, line in enumerate(reading.lines, 1) if line.status != "ok")
    place = reading.text.place(line.start, line.stop)
    what = {"bad_step_line": _bad_form, "bad_step_json": _bad_json, "bad_step_schema": _bad_fields}[reason]
    message = f"Step {k}, in line {place.line}: {what(reading.text.part(line.start, line.stop))}."
    return Cause(message, BAD_LINES[reason], "key", k, place)


def _bad_form(line: str) -> str:
    if FRAMED.match(line):
        return "the line does not end with the closing brace of its object"
    return "the line is not of the form Step N: {…}"


def _bad_json(line: str) -> str:
    try:
        value = json.loads(line[line.index("{") :])
        if half := re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
            return f"the escape \\u{ord(half[0]):04x} is half of a surrogate pair, which is not valid JSON"
    except json.JSONDecodeError as error:
        column = line.index("{") + error.colno
        return f"the braces do not contain valid JSON ({error.msg[0].lower()}{error.msg[1:]}, column {column})"
    except (ValueError, RecursionError):
        pass
    return "the braces do not contain valid JSON"


def _bad_fields(line: str) -> str:
    step = json.loads(line[line.index("{") :], parse_int=float)
    if unknown := [f"“{name[:MAX_NAME]}”" for name in step if name not in FIELDS]:
        names = first_n(unknown, 4)
        return f"unknown {'field' if len(unknown) == 1 else 'fields'} {names}; allowed: {', '.join(FIELDS)}"
    return wrong_fields(step) or "action has no words"


def _numbering(section: Section, steps: Sequence[KeyLine | Prose], reading: Reading) -> Cause:
    k, step = next((k, step) for k, step in enumerate(steps, 1) if step.number != k)
    place = reading.text.place(step.start, step.stop)
    message = f"Step {k} of <{section}>, in line {place.line}, has the number {step.number}."
    return Cause(message, f"Number the steps of <{section}> 1, 2, 3, …", section, k, place)


def _step_count(reading: Reading) -> Cause:
    lines, prose = reading.key_lines, reading.prose_steps
    message = f"<key> has {plural(lines, 'step')}, but <orc> has {prose:,}."
    remedy = "Write one step of <orc> for each step of <key>, each on a line that begins with Step N:."
    first = min(lines, prose)
    step = reading.lines[first] if lines > prose else reading.prose[first]
    place = reading.text.place(step.start, step.stop)
    return Cause(message, remedy, "key" if lines > prose else "orc", first + 1, place)


def _low_coverage(reading: Reading, coverages: Sequence[Coverage | None], settings: ScoreSettings) -> Cause:
    measured = [(coverage, k) for k, coverage in enumerate(coverages) if coverage is not None]
    lowest, k = min(measured, key=lambda pair: pair[0].value)
    lacking = sum(not coverage.enough for coverage, _ in measured)
    message = (
        f"Step {k + 1} of <orc> has {lowest.covered:,} of the {plural(lowest.total, 'word')} of its key step "
        f"({format_reward(lowest.value)}; {format_number(settings.min_coverage)} is needed). "
        f"Missing: {first_n(lowest.uncovered, 8)}."
    )
    if lacking > 1:
        message += f" {plural(lacking, 'step')} lack words."
    remedy = "Write every action, object and parameter of a key step in its step of <orc>, in the same words."
    place = reading.text.place(reading.prose[k].start, reading.prose[k].stop)
    return Cause(message, remedy, "orc", k + 1, place)


BEFORE = " The lines before step 1 count as part of it."


def _added_numbers(reading: Reading, added: AddedBySteps, settings: ScoreSettings) -> Cause:
    steps = [(k, own.numbers) for k, own in enumerate(added, 1) if own is not None and own.numbers]
    total = sum(len(numbers) for _, numbers in steps)
    listed = first_n([f"{first_n(numbers, 8)} in step {k}" for k, numbers in steps], 4)
    verb = "is" if settings.max_added_numbers == 1 else "are"
    allowed = f"at most {settings.max_added_numbers:,} {verb} allowed"
    message = f"<orc> has {plural(total, 'number')} of its own: {listed}; {allowed}."
    remedy = "Write the numbers of <orc> in its key steps as well, in the same words, or leave them out."
    return _in_prose(reading, steps[0][0], message, remedy)


def _added_words(reading: Reading, added: AddedBySteps, settings: ScoreSettings) -> Cause:
    limit = settings.max_added_words
    failing = [(k, own) for k, own in enumerate(added, 1) if own is not None and own.fails(limit)]
    k, own = failing[0]
    verb = "is" if limit == 1 else "are"
    listed = first_n([f"“{word}”" for word in own.words or ()], 8)
    message = f"Step {k} of <orc> has {plural(len(own.words or ()), 'word')} of its own: {listed}; "
    message += f"at most {limit:,} {verb} allowed, and no negation." if limit else "none is allowed."
    if len(failing) > 1:
        message += f" {plural(len(failing), 'step')} have too many words of their own, or a negation."
    beyond = own.beyond(limit)
    drop, them = first_n([f"“{word}”" for word in beyond], 8), "it" if len(beyond) == 1 else "them"
    remedy = f"Drop {drop} from step {k} of <orc>, or write {them} in its key step as well."
    return _in_prose(reading, k, message, remedy)


def _in_prose(reading: Reading, k: int, message: str, remedy: str) -> Cause:
    prose = reading.prose[k - 1]
    if prose.limited != prose.spoken:
        message += BEFORE
    return Cause(message, remedy, "orc", k, reading.text.place(prose.start, prose.stop))


SPACES = "\u00a0\u2007\u2009\u202f\u3000"
INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
MEANT = {
    **dict.fromkeys(SPACES, " "),
    **dict.fromkeys(INVISIBLE, ""),
    **{chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)},  # fullwidth forms
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("∶꞉︓", ":"),
    **dict.fromkeys("‹〈", "<"),
    **dict.fromkeys("›〉", ">"),
    **dict(zip("асеікорѕту", "aceikopsty", strict=True)),  # Cyrillic
}
"""Each character with the one that is read where it stands."""

MAX_BYTES = 65_536  # of a response that is searched: it is read again for each of its characters
MAX_KINDS, MAX_PLACES = 8, 8


def look_alikes(reading: Reading, think_prefilled: bool) -> str:
    """Return sentences about the characters without which more of the response can be read, or nothing."""
    if len(reading.text.content) > MAX_BYTES:
        return ""
    text = reading.text.content.decode()
    kinds = [character for character in dict.fromkeys(text) if character in MEANT][:MAX_KINDS]

    def helps(changed: str) -> bool:
        return progress(read_response(Text(changed.encode()), think_prefilled)) > progress(reading)

    guilty = [kind for kind in kinds if helps(replaced(text, kind))]
    if not guilty and len(kinds) > 1 and helps(replaced(text, kinds)):  # such as both brackets of a tag
        guilty = kinds
    return "".join(f" {sentence(kind, line_of(text, kind, helps))}" for kind in guilty[:3])


def progress(reading: Reading) -> tuple[int, int, int, int]:
    """Return how much can be read: sections, valid steps, lines with steps, steps of the prose."""
    return reading.whole, len(reading.valid), reading.key_lines, reading.prose_steps


def replaced(text: str, kinds: Iterable[str]) -> str:
    return text.translate({ord(kind): MEANT[kind] for kind in kinds})


def line_of(text: str, kind: str, helps: Callable[[str], bool]) -> int:
    """Return the line of the first character of this kind whose replacement helps, or else of the first."""
    places = list(places_of(text, kind))
    place = next((k for k in places if helps(f"{text[:k]}{MEANT[kind]}{text[k + 1 :]}")), places[0])
    return text.count("\n", 0, place) + 1


def places_of(text: str, kind: str) -> Iterator[int]:
    place = -1
    for _ in range(MAX_PLACES):
        place = text.find(kind, place + 1)
        if place < 0:
            return
        yield place


def sentence(kind: str, line: int) -> str:
    name = unicodedata.name(kind, "unnamed").lower()
    instead = {"": "delete it", " ": "write a space"}.get(MEANT[kind], f"write {MEANT[kind]}")
    return f"Line {line} has U+{ord(kind):04X} ({name}): {instead}."

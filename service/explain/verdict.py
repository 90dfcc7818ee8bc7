"""Why a response failed, and hints for its author."""

from __future__ import annotations

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...kernels.reading.response import ABSENT
from ...kernels.rules import MIN_OBJECT_SIMILARITY
from ..scoring.text_columns import wrong_fields
from ..settings import ScoreSettings
from ..wording import first_n, format_number, format_reward, plural
from .edits import FIELDS, FRAMED
from .reading import KeyLine, Prose, Reading, canons, words_of
from .schema import Check, CheckName, Coverage, Failure, Gate, Hint, Pair, Phrase, Place, Section

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
)

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


def checks_of(reason: str, reading: Reading | None, coverage: float, settings: ScoreSettings) -> list[Check]:
    failed = failed_check(reason, reading)
    details = _details(reading, coverage, settings)
    checks = []
    for k, (name, gate, _) in enumerate(CHECKS):
        detail = details[name] if k <= failed else "not checked"
        checks.append(Check(name=name, gate=gate, passed=None if k > failed else k < failed, detail=detail))
    return checks


def failed_check(reason: str, reading: Reading | None) -> int:
    if reason == "ok":
        return len(CHECKS)
    if reason == "too_long":
        return 0 if reading is None else 2
    return next(k for k, (_, _, reasons) in enumerate(CHECKS) if reason in reasons)


def _details(reading: Reading | None, coverage: float, settings: ScoreSettings) -> dict[CheckName, str]:
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
    }


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
    reason: str, reading: Reading | None, coverages: Sequence[Coverage | None], settings: ScoreSettings
) -> Failure | None:
    if reason == "ok":
        return None
    gate = CHECKS[failed_check(reason, reading)][1]
    return Failure(reason=reason, gate=gate, **_cause(reason, reading, coverages, settings)._asdict())


def _cause(
    reason: str, reading: Reading | None, coverages: Sequence[Coverage | None], settings: ScoreSettings
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


MAX_HINTS = 10

SCALES = (
    {"s": 1, "min": 60, "h": 3600, "d": 86400},
    {"nl": 1, "μl": 10**3, "ml": 10**6, "l": 10**9},
    {"ng": 1, "μg": 10**3, "mg": 10**6, "g": 10**9, "kg": 10**12},
    {"nm": 1, "μm": 10**3, "mm": 10**6, "cm": 10**7},
)
KINDS = {unit: (kind, factor) for kind, scale in enumerate(SCALES) for unit, factor in scale.items()}
UNITS = frozenset([*KINDS, "c", "rpm", "xg", "v", "%"])

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: k for k, word in enumerate(ONES)} | {word: 10 * k for k, word in enumerate(TENS, 2)}
DECIMAL = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
NUMBER = re.compile(rf"{DECIMAL}(?:e-?[0-9]{{1,2}})?")
POWER = re.compile(rf"(?:({DECIMAL}) ?x ?)?10 (-?[0-9]{{1,2}})(?= |$)")
"""A power of ten as words joined by spaces: `10 6` of `10⁶`, `5 x 10 6`, `5x10 6`."""

POWER_WORDS = 4
POWER_SIGNS = "powers are written with ^ or superscript digits"
LINKS = ("to", "or", "and", "x")
"""Words of ranges, sums and products, about which there are no hints."""


class Quantity(NamedTuple):
    words: tuple[str, ...]
    text: str
    number: Fraction
    unit: str
    per: str

    @property
    def amount(self) -> tuple[int | str, Fraction, str]:
        kind, factor = KINDS.get(self.unit, (self.unit, 1))
        return kind, self.number * factor, self.per


def hints_of(
    reading: Reading,
    expected: Reading,
    pairs: Sequence[Pair],
    coverages: Sequence[Coverage | None],
    settings: ScoreSettings,
) -> list[Hint]:
    hints = [*_about_pairs(reading, expected, pairs), *_about_prose(reading, coverages)]
    if settings.object_similarity == "fallback":
        hints += _about_objects(reading, expected, pairs)
    hints.sort(key=lambda hint: hint.step or 0)
    return hints[:MAX_HINTS]


def _about_pairs(reading: Reading, expected: Reading, pairs: Sequence[Pair]) -> Iterator[Hint]:
    for pair in pairs:
        mine, theirs = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        for name in ("objects", "parameters"):
            said, needed = _words_of(getattr(mine, name)), _words_of(getattr(theirs, name))
            equal, lost = _equal(_quantities_of(said), _quantities_of(needed)), _lost_powers(said, needed)
            texts = [f"{first.text} is {second.text}: {_compared(first, second)}." for first, second in equal]
            texts += [f"{first} is not {second}: {POWER_SIGNS}." for first, second in lost]
            yield from (Hint(text=text, step=pair.predicted, reference_step=pair.reference) for text in texts)


def _about_objects(reading: Reading, expected: Reading, pairs: Sequence[Pair]) -> Iterator[Hint]:
    """Yield pairs whose parameters would count if Obj did not prefer the one whole object that they share."""
    for pair in pairs:
        if pair.objects.compared != "objects" or pair.parameters_counted:
            continue
        lines = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        mine, theirs = (set(words_of(line.objects)) for line in lines)
        by_words = len(mine & theirs) / len(mine | theirs)
        if by_words >= MIN_OBJECT_SIMILARITY:
            text = (
                f"Obj is {format_reward(pair.objects.value)} by whole objects, {format_reward(by_words)} by words: "
                "words count only if no whole object is shared, or with object_similarity = max."
            )
            yield Hint(text=text, step=pair.predicted, reference_step=pair.reference)


def _about_prose(reading: Reading, coverages: Sequence[Coverage | None]) -> Iterator[Hint]:
    for k, (line, prose, coverage) in enumerate(zip(reading.lines, reading.prose, coverages, strict=False), 1):
        if coverage is None or not coverage.uncovered:
            continue
        step_words, said = _words_of([*line.objects, *line.parameters]), [prose.canon.split(" ")]
        uncovered = set(coverage.uncovered)
        lacking = [quantity for quantity in _quantities_of(step_words) if not uncovered.isdisjoint(quantity.words)]
        equal, lost = _equal(lacking, _quantities_of(said)), _lost_powers(step_words, said)
        texts = [f"{first.text}, its prose {second.text}: {_compared(first, second)}." for first, second in equal]
        texts += [f"{first}, its prose {second}: {POWER_SIGNS}." for first, second in lost if first in uncovered]
        yield from (Hint(text=f"The step has {text}", step=k, reference_step=None) for text in texts)


def _compared(quantity: Quantity, other: Quantity) -> str:
    what = "numbers" if quantity.unit == other.unit else "units"
    return f"{what} are compared as written"


def _equal(mine: Iterable[Quantity], theirs: Sequence[Quantity]) -> Iterator[tuple[Quantity, Quantity]]:
    """Yield equal quantities in different words, each with one partner; not those that the other side has as well."""
    distinct = dict.fromkeys(mine)
    shared = {quantity.words for quantity in distinct} & {quantity.words for quantity in theirs}
    free: dict[object, deque[Quantity]] = defaultdict(deque)
    for quantity in {candidate.words: candidate for candidate in theirs}.values():
        if quantity.words not in shared:
            free[quantity.amount].append(quantity)
    for quantity in distinct:
        if quantity.words not in shared and free[quantity.amount]:
            yield quantity, free[quantity.amount].popleft()


def _lost_powers(mine: Sequence[Sequence[str]], theirs: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    my_exponents, their_exponents = _exponents(mine), _exponents(theirs)
    my_words, their_words = ({word for words in phrases for word in words} for phrases in (mine, theirs))
    for exponent in dict.fromkeys([*my_exponents, *their_exponents]):
        power, plain = f"10^{exponent}", f"10{exponent}"
        if exponent not in their_exponents and plain in their_words - my_words:
            yield power, plain
        if exponent not in my_exponents and plain in my_words - their_words:
            yield plain, power


def _exponents(phrases: Sequence[Sequence[str]]) -> list[str]:
    powers = [_power(words, k) for words in phrases for k in range(len(words))]
    return [power[2] for power in powers if power is not None]


def _power(words: Sequence[str], k: int) -> re.Match[str] | None:
    return POWER.match(" ".join(words[k : k + POWER_WORDS]))


def _words_of(phrases: Sequence[Phrase]) -> list[list[str]]:
    return [phrase.words for phrase in phrases]


def _quantities_of(phrases: Sequence[Sequence[str]]) -> list[Quantity]:
    return [quantity for words in phrases for quantity in _quantities(words)]


def _quantities(words: Sequence[str]) -> Iterator[Quantity]:
    """Yield the quantities of canonical words, but not in a range, a sum or a product."""
    k = 0
    while k < len(words):
        power = _power(words, k)
        start, k = k, k + (1 if power is None else power[0].count(" ") + 1)
        number = _number(words[start]) if power is None else Fraction(power[1] or 1) * Fraction(10) ** int(power[2])
        if number is None:
            continue
        following = words[k : k + 1]
        unit = _unit(following[0], words[start] in NUMBER_WORDS) if following else ""
        stop = k + bool(unit)
        after = words[stop : stop + 2]
        per = after[0] if unit and after and after[0] in UNITS else ""
        if unit and len(after) == 2 and after[0] == "per":
            per = after[1]
        before = words[start - 1] if start else ""
        linked = before in LINKS or before in UNITS or _number(before) is not None
        linked |= bool(after) and (after[0] in LINKS or _number(after[0]) is not None)
        if not linked:
            shown = words[start] if power is None else f"{power[0].rpartition(' ')[0]}^{power[2]}"
            yield Quantity(tuple(words[start:stop]), " ".join([shown, *words[k:stop]]), number, unit, per)


def _number(word: str) -> Fraction | None:
    if NUMBER.fullmatch(word):
        return Fraction(word)
    return Fraction(NUMBER_WORDS[word]) if word in NUMBER_WORDS else None


def _unit(word: str, spelled: bool) -> str:
    if word in UNITS or not spelled:
        return word if word in UNITS else ""
    named = canons([f"1 {word}"])[0].split(" ")
    return named[1] if len(named) == 2 and named[1] in UNITS else ""

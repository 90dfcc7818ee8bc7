"""Hints: what is equal to people, but not to the comparison, which takes numbers and units as written."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...kernels.rules import MIN_OBJECT_SIMILARITY
from ..settings import ScoreSettings
from ..wording import format_reward
from .reading import Reading, words_of
from .schema import Coverage, Hint, Pair, Phrase
from .text import canons

__all__ = ["hints_of"]

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

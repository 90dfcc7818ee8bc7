"""Hints: what is the same to people, but not to the comparison."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...kernels.rules import MIN_OBJECT_SIMILARITY
from ..settings import ScoreSettings
from ..wording import format_reward
from .quantities import KINDS, quantity_limits, terms_in
from .reading import Reading, canons, words_of
from .schema import Coverage, Hint, Pair, Phrase

MAX_HINTS = 10

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: k for k, word in enumerate(ONES)} | {word: 10 * k for k, word in enumerate(TENS, 2)}
DECIMAL = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
NUMBER = re.compile(rf"-?{DECIMAL}(?:e-?[0-9]{{1,2}})?")
POWER = re.compile(rf"(?:({DECIMAL}) ?x ?)?10 (-?[0-9]{{1,2}})(?= |$)")
"""A power of ten as words joined by spaces: `10 6` of `10⁶`, `5 x 10 6`, `5x10 6`."""

POWER_WORDS = 4
POWER_SIGNS = "powers are written with ^ or superscript digits"
LINKS = ("to", "or", "and", "x")
"""Words of ranges, sums and products, about which there are no hints."""

WITH_QUANTITIES = "parameter_similarity = quantities"


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
    quantities = settings.parameter_similarity == "quantities"
    hints = [*_about_pairs(reading, expected, pairs, quantities), *_about_prose(reading, coverages)]
    if quantities:
        hints += _about_limits(reading, expected, pairs)
    if settings.object_similarity == "fallback":
        hints += _about_objects(reading, expected, pairs)
    hints.sort(key=lambda hint: hint.step or 0)
    return hints[:MAX_HINTS]


def _about_pairs(reading: Reading, expected: Reading, pairs: Sequence[Pair], quantities: bool) -> Iterator[Hint]:
    for pair in pairs:
        mine, theirs = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        for name in ("objects", "parameters"):
            said, needed = _words_of(getattr(mine, name)), _words_of(getattr(theirs, name))
            texts = []
            for first, second in _equal(_quantities_of(said), _quantities_of(needed)):
                are_terms = name == "parameters" and _same_terms(first, second)
                if are_terms and quantities:
                    continue
                would = f"; {WITH_QUANTITIES} would count it" if are_terms else ""
                texts.append(f"{first.text} is {second.text}: {_compared(first, second, quantities)}{would}.")
            texts += [f"{first} is not {second}: {POWER_SIGNS}." for first, second in _lost_powers(said, needed)]
            yield from (Hint(text=text, step=pair.predicted, reference_step=pair.reference) for text in texts)


def _about_limits(reading: Reading, expected: Reading, pairs: Sequence[Pair]) -> Iterator[Hint]:
    """Yield the parameters of pairs that are not read as the quantity they mean, unless both sides write them alike."""
    for pair in pairs:
        mine = [phrase.text for phrase in reading.lines[pair.predicted - 1].parameters]
        theirs = [phrase.text for phrase in expected.lines[pair.reference - 1].parameters]
        texts = [f"{limit}." for text in mine if text not in theirs for limit in quantity_limits(text)]
        texts += [
            f"In the reference, {limit}." for text in theirs if text not in mine for limit in quantity_limits(text)
        ]
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
        texts = [
            f"{first.text}, its prose {second.text}: {_compared(first, second, False)}." for first, second in equal
        ]
        texts += [f"{first}, its prose {second}: {POWER_SIGNS}." for first, second in lost if first in uncovered]
        yield from (Hint(text=f"The step has {text}", step=k, reference_step=None) for text in texts)


def _compared(quantity: Quantity, other: Quantity, quantities: bool) -> str:
    what = "numbers" if quantities or quantity.unit == other.unit else "units"
    return f"{what} are compared as written"


def _same_terms(quantity: Quantity, other: Quantity) -> bool:
    return list(terms_in(quantity.words)) == list(terms_in(other.words))


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
        per = after[0] if unit and after and after[0] in KINDS else ""
        if unit and len(after) == 2 and after[0] == "per":
            per = after[1]
        before = words[start - 1] if start else ""
        linked = before in LINKS or before in KINDS or _number(before) is not None
        linked |= bool(after) and (after[0] in LINKS or _number(after[0]) is not None)
        if not linked:
            shown = words[start] if power is None else f"{power[0].rpartition(' ')[0]}^{power[2]}"
            yield Quantity(tuple(words[start:stop]), " ".join([shown, *words[k:stop]]), number, unit, per)


def _number(word: str) -> Fraction | None:
    if NUMBER.fullmatch(word):
        return Fraction(word)
    return Fraction(NUMBER_WORDS[word]) if word in NUMBER_WORDS else None


def _unit(word: str, spelled: bool) -> str:
    if word in KINDS or not spelled:
        return word if word in KINDS else ""
    named = canons([f"1 {word}"])[0].split(" ")
    return named[1] if len(named) == 2 and named[1] in KINDS else ""

"""Hints: quantities that are equal to people, but not to the comparison, which takes numbers and units as written."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from .reading import Line, Reading
from .schema import Coverage, Hint, Pair
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
"""The kind and the factor of each unit, by its canonical name."""

UNITS = frozenset([*KINDS, "c", "rpm", "xg", "v", "%"])

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: k for k, word in enumerate(ONES)} | {word: 10 * k for k, word in enumerate(TENS, 2)}

DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")
LINKS = ("to", "or", "and", "x")
"""Words that make two quantities one: ranges, sums and products, about which there are no hints."""


class Quantity(NamedTuple):
    """A number as it is written, its unit (empty without one), and the unit that it is divided by."""

    words: tuple[str, ...]
    number: Fraction
    unit: str
    per: str

    @property
    def amount(self) -> tuple[int | str, Fraction, str]:
        """The amount in the smallest unit of its kind: equal for exactly equal quantities."""
        kind, factor = KINDS.get(self.unit, (self.unit, 1))
        return kind, self.number * factor, self.per

    @property
    def text(self) -> str:
        return " ".join(self.words)


def hints_of(
    reading: Reading, expected: Reading, pairs: Sequence[Pair], coverages: Sequence[Coverage | None]
) -> list[Hint]:
    """Return the hints about pairs that differ, and about words that the prose lacks, in the order of the steps."""
    hints = [*_about_pairs(reading, expected, pairs), *_about_prose(reading, coverages)]
    hints.sort(key=lambda hint: hint.step or 0)
    return hints[:MAX_HINTS]


def _about_pairs(reading: Reading, expected: Reading, pairs: Sequence[Pair]) -> Iterator[Hint]:
    for pair in pairs:
        mine, theirs = reading.lines[pair.predicted - 1], expected.lines[pair.reference - 1]
        for name in ("objects", "parameters"):
            for quantity, other in _equal(_quantities_of(mine, name), _quantities_of(theirs, name)):
                text = f"{quantity.text} is {other.text}: {_compared(quantity, other)}."
                yield Hint(text=text, step=pair.predicted, reference_step=pair.reference)


def _about_prose(reading: Reading, coverages: Sequence[Coverage | None]) -> Iterator[Hint]:
    for k, (line, prose, coverage) in enumerate(zip(reading.lines, reading.prose, coverages, strict=False), 1):
        if coverage is None or not coverage.uncovered:
            continue
        key = [*_quantities_of(line, "objects"), *_quantities_of(line, "parameters")]
        uncovered = set(coverage.uncovered)
        lacking = [quantity for quantity in key if not uncovered.isdisjoint(quantity.words)]
        for quantity, other in _equal(lacking, _quantities(prose.canon.split(" "))):
            text = f"The step has {quantity.text}, its prose {other.text}: {_compared(quantity, other)}."
            yield Hint(text=text, step=k, reference_step=None)


def _compared(quantity: Quantity, other: Quantity) -> str:
    what = "numbers" if quantity.unit == other.unit else "units"
    return f"{what} are compared as written"


def _equal(mine: Iterable[Quantity], theirs: Sequence[Quantity]) -> Iterator[tuple[Quantity, Quantity]]:
    """Yield equal quantities in different words, each with one partner; not those that the other side has as well."""
    own = dict.fromkeys(mine)
    shared = {quantity.words for quantity in own} & {quantity.words for quantity in theirs}
    free: dict[object, deque[Quantity]] = defaultdict(deque)
    for quantity in {one.words: one for one in theirs}.values():
        if quantity.words not in shared:
            free[quantity.amount].append(quantity)
    for quantity in own:
        if quantity.words not in shared and free[quantity.amount]:
            yield quantity, free[quantity.amount].popleft()


def _quantities_of(line: Line, name: str) -> list[Quantity]:
    return [quantity for phrase in getattr(line, name) for quantity in _quantities(phrase.words)]


def _quantities(words: Sequence[str]) -> list[Quantity]:
    """Return the quantities of canonical words, but not those that are part of a range, a sum or a product."""
    found = []
    for k, word in enumerate(words):
        number = _number(word)
        if number is None:
            continue
        rest = words[k + 1 : k + 2]
        unit = _unit(rest[0], word in NUMBER_WORDS) if rest else ""
        stop = k + 1 + bool(unit)
        after = words[stop : stop + 2]
        per = after[0] if unit and after and after[0] in UNITS else ""
        if unit and len(after) == 2 and after[0] == "per":
            per = after[1]
        before = words[k - 1] if k else ""
        linked = before in LINKS or before in UNITS or _number(before) is not None
        linked |= bool(after) and (after[0] in LINKS or _number(after[0]) is not None)
        if not linked:
            found.append(Quantity(tuple(words[k:stop]), number, unit, per))
    return found


def _number(word: str) -> Fraction | None:
    if DECIMAL.fullmatch(word):
        return Fraction(word)
    return Fraction(NUMBER_WORDS[word]) if word in NUMBER_WORDS else None


def _unit(word: str, spelled: bool) -> str:
    """Return the unit that a word names after a number, empty if none; only after digits is it canonical already."""
    if word in UNITS or not spelled:
        return word if word in UNITS else ""
    named = canons([f"1 {word}"])[0].split(" ")
    return named[1] if len(named) == 2 and named[1] in UNITS else ""

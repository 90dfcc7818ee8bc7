"""Quantities (docs/rules.md, Quantities): the terms of a parameter, and amounts that they do not tell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...kernels.text.quantities import DIMENSIONS, MAX_DIGITS, NO_DIMENSION
from ...kernels.text.words import UNITS
from .reading import canons
from .schema import Phrase

KINDS = {unit: (k, f * 10**p) for k, units in enumerate(DIMENSIONS, 1) for unit, (f, p) in units.items()}
"""The dimension of each unit, and its size in the dimension's base unit."""

DECIMAL = re.compile(r"(-?)([0-9]+)(?:\.([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or `digits` · 10 ^ `exponent` in the base unit of a dimension; equal terms may have different texts."""

    text: str = field(compare=False)
    word: str = ""
    dimension: int = NO_DIMENSION
    digits: int = 0
    exponent: int = 0

    def __str__(self) -> str:
        return self.text


def terms_of(phrases: Iterable[Phrase]) -> list[Term]:
    return [term for phrase in phrases for term in terms_in(phrase.words)]


def terms_in(words: Sequence[str]) -> Iterator[Term]:
    """Yield the terms of the canonical words of one phrase."""
    k = 0
    while k < len(words):
        value = _value(words[k])
        if value is None:
            yield Term(words[k], words[k])
        elif k + 1 < len(words) and words[k + 1] in KINDS:
            dimension, size = KINDS[words[k + 1]]
            yield Term(f"{words[k]} {words[k + 1]}", "", dimension, *_normal(value[0] * size, value[1]))
            k += 1
        else:
            yield Term(words[k], "", NO_DIMENSION, *value)
        k += 1


def _value(word: str) -> tuple[int, int] | None:
    """Return a word as digits and an exponent; None if it is not a decimal with at most MAX_DIGITS digits."""
    match = DECIMAL.fullmatch(word)
    if match is None:
        return None
    sign, whole, part = match[1], match[2], match[3] or ""
    significant = (whole + part).strip("0")
    if len(significant) > MAX_DIGITS:
        return None
    zeros = len(whole + part) - len((whole + part).rstrip("0"))
    return _normal(int(f"{sign}{significant or 0}"), zeros - len(part))


def _normal(digits: int, exponent: int) -> tuple[int, int]:
    if digits == 0:
        return 0, 0
    while digits % 10 == 0:
        digits, exponent = digits // 10, exponent + 1
    return digits, exponent


CANONICAL = {name: canonical for canonical, names in UNITS.items() for name in names}
ALIKE = {"µ": "μ", "º": "°", "˚": "°"}
"""Characters that are read as others in names of units."""

UNIT = f"(?:{'|'.join(sorted(map(re.escape, CANONICAL), key=len, reverse=True))})"
END = r"(?![\w%]|[-.]\w)"
VALUE = r"(?<![0-9])(?<![0-9][.,])[0-9]++(?:,[0-9]{3}(?![0-9]))*+(?:\.[0-9]++)?+"
SPACE = r"[\s°]*+"

MISREAD = (
    re.compile(rf"(?<![\w%.-])-?\.[0-9]++(?:{SPACE}{UNIT}{END})?"),
    re.compile(rf"(?:{VALUE}\s*+)?[¼-¾⅐-⅟↉](?:{SPACE}{UNIT}{END})?"),
    re.compile(rf"{VALUE}\s*+[/⁄]\s*+[0-9]++{SPACE}{UNIT}{END}"),
    re.compile(rf"{VALUE}(?:[⁰¹²³⁴-⁹⁺⁻]++|\^-?[0-9]++)[\s/°]*+{UNIT}{END}"),
)
"""A point without a digit before it, fractions, and powers before a unit."""

SUM = re.compile(rf"{VALUE}{SPACE}({UNIT})(?:\s++and\s++|\s*+){VALUE}{SPACE}({UNIT}){END}")
RATIO = re.compile(rf"{VALUE}{SPACE}{UNIT}(?:\s*+/\s*+|\s++per\s++)(?:{VALUE}{SPACE})?{UNIT}{END}")


def quantity_limits(parameter: str) -> Iterator[str]:
    """Yield a sentence about each part of a parameter that is not the quantity its author means.

    These are the known limits of `parameter_similarity = "quantities"`: `.5 ml` and `½ ml`, powers before a unit, sums
    such as `1 h 30 min`, and ratios such as `50 µg/ml`.
    """
    alike = "".join(map(_folded, parameter))  # as long as the text
    for pattern in MISREAD:
        for match in pattern.finditer(alike):
            text = parameter[match.start() : match.end()]
            reading = re.sub("(?<=[0-9]) (?=-?[0-9])", " and ", canons([text])[0])
            yield f"“{text}” is read as {reading}"
    for match in SUM.finditer(alike):
        (kind, first), (other, second) = (KINDS[CANONICAL[name]] for name in match.groups())
        if kind == other and first > second:
            yield f"“{parameter[match.start() : match.end()]}” is not read as one quantity"
    for match in RATIO.finditer(alike):
        yield f"“{parameter[match.start() : match.end()]}” is not equal to the same ratio in other units"


def _folded(character: str) -> str:
    folded = ALIKE.get(character, character.casefold())
    return folded if len(folded) == 1 else character

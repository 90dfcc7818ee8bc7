"""The quantities of parameters (docs/rules.md, Quantities): how they are read, and which are wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Context, Decimal
from itertools import chain, islice, zip_longest

import numpy as np

from ...kernels.memory import (
    HEADS,
    LENGTHS,
    STARTS,
    TERM_SPANS,
    TERMS,
    Workspace,
    allocate_workspace,
)
from ...kernels.text.interning import PAIR
from ...kernels.text.measures import BASE_POWER, SPELLINGS, dimension_name
from ...kernels.text.quantities import KINDS, SPAN_SHIFT, parameter_terms, unpacked
from ...kernels.text.unicode import SYMBOLS, tables
from ..scoring.texts import utf8
from .reading import Quantity, Reading, Term
from .schema import EQUAL, PairQuantities, ReadQuantity

NEAR = 4096  # characters in which the text of a quantity is looked for
SYMBOL_OF = {code: symbol for symbol, code in SYMBOLS.items()}


def terms_of(text: str) -> list[Term]:
    """Return the terms of a parameter, as the reward reads them."""
    return next(terms_of_each([text]))


def terms_of_each(texts: Sequence[str]) -> Iterator[list[Term]]:
    contents = [np.frombuffer(utf8(text), np.uint8) for text in texts]
    workspace = allocate_workspace(max(map(len, contents), default=0))
    return (_terms_in(text, content, workspace) for text, content in zip(texts, contents, strict=True))


def _terms_in(text: str, data: np.ndarray, workspace: Workspace) -> list[Term]:
    ints, (_, norm, canon) = workspace.ints, workspace.bytes
    terms, folded, pos = list[Term](), text.casefold(), 0
    for k in range(parameter_terms(data, tables(), workspace)):
        string = int(ints[TERMS, k])
        start, length = int(ints[STARTS, string]), int(ints[LENGTHS, string])
        if length > PAIR:
            terms.append(canon[start : start + length].tobytes().decode())
        else:
            start, stop = divmod(int(ints[TERM_SPANS, k]), 1 << SPAN_SHIFT)
            shown = norm[start:stop].tobytes().decode().translate(SYMBOL_OF)
            at = folded.find(shown, pos, pos + len(shown) + NEAR) if len(folded) == len(text) else -1
            pos = at + len(shown) if at >= 0 else pos
            written = text[at:pos] if at >= 0 else shown  # the case tells mM from mm
            terms.append(Quantity(shown, *quantity_at(ints, string), written))
    return terms


def quantity_at(ints: np.ndarray, string: int) -> tuple[str, str, tuple[tuple[int, int], ...]]:
    """Return the dimension, kind and values of a string of the workspace that is a quantity."""
    head, length = int(ints[HEADS, string]), int(ints[LENGTHS, string])
    if length == PAIR:
        (dimension, kind, values), (_, _, last) = (quantity_at(ints, part) for part in divmod(head, 1 << 32))
        return dimension, kind, values + last
    number, kind_number, digits, exponent = unpacked(head, length)
    return dimension_name(number), KINDS[kind_number], ((digits, exponent),)


def read_terms(reading: Reading) -> None:
    """Read the terms of every parameter that has words, once."""
    lines = [line for line in reading.lines if line.terms is None]
    texts = [phrase.text if phrase.words else "" for line in lines for phrase in line.parameters]
    each = terms_of_each(texts)
    for line in lines:
        line.terms = list(islice(each, len(line.parameters)))
        for phrase, terms in zip(line.parameters, line.terms, strict=True):
            phrase.terms = list(map(str, terms))


def texts_of(elements: Sequence[str]) -> set[str]:
    """Return the texts of terms as a similarity lists them, where equal ones are joined."""
    return {text for element in elements for text in element.split(EQUAL)}


ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
NUMBER_WORDS = {word: k for k, word in enumerate(ONES)} | {word: 10 * k for k, word in enumerate(TENS, 2)}
NUMBER_WORD = re.compile(rf"(?<![\w.-])(?:{'|'.join(NUMBER_WORDS)})(?![\w.-])", re.IGNORECASE)
KELVIN = re.compile(r"(?<![\w.,-])[0-9]++(?:\.[0-9]++)?+ ?(?:K|[Kk]elvin)(?![\w/])")
OTHER_FRACTION = re.compile("[0-9]*[⅐-⅞]")


def spelled_quantities(text: str) -> list[Quantity]:
    """Return the quantities that a text would have as well if its numbers were not written as words."""
    written = NUMBER_WORD.sub(lambda word: str(NUMBER_WORDS[word[0].lower()]), text)
    if written == text:
        return []
    quantities = set(terms_of(text))
    return [term for term in terms_of(written) if isinstance(term, Quantity) and term not in quantities]


def quantity_limits(parameter: str) -> Iterator[str]:
    """Yield a sentence about each part of a parameter that is not the quantity its author means.

    These are known limits of the rules: numbers as words, kelvin, and fractions other than ¼, ½ and ¾.
    """
    if any(quantity.dimension for quantity in spelled_quantities(parameter)):
        yield f"“{parameter}” is read as words: write its number in digits"
    yield from (f"“{match[0]}” is no temperature: kelvin is not read" for match in KELVIN.finditer(parameter))
    yield from (f"“{match[0]}” is not read as a fraction" for match in OTHER_FRACTION.finditer(parameter))


Correction = tuple[Quantity | None, Quantity | None]
"""A quantity that only the prediction has, and one of the same dimension that only the reference has."""


def corrections_of(mine: Sequence[Term], theirs: Sequence[Term]) -> list[Correction]:
    """Return the wrong quantities of two steps' parameters, paired by dimension: each is one error."""
    sides = [dict.fromkeys(term for term in side if isinstance(term, Quantity)) for side in (mine, theirs)]
    wrong: dict[str, tuple[list[Quantity], list[Quantity]]] = defaultdict(lambda: ([], []))
    for k, (own, other) in enumerate((sides, sides[::-1])):
        for quantity in own:
            if quantity not in other:
                wrong[quantity.dimension][k].append(quantity)
    return list(chain.from_iterable(zip_longest(*both) for both in wrong.values()))


def compared_quantities(mine: Sequence[Term], theirs: Sequence[Term]) -> PairQuantities:
    corrections = corrections_of(mine, theirs)
    return PairQuantities(
        prediction=_shown(mine, theirs),
        reference=_shown(theirs, mine),
        errors=len(corrections),
        advice=[advice_of(*correction) for correction in corrections],
    )


def advice_of(extra: Quantity | None, missing: Quantity | None) -> str:
    if missing is None:
        return f"leave out {extra.written if extra is not None else ''}"
    return f"add {missing.written}" if extra is None else f"write {missing.written} instead of {extra.written}"


def _shown(mine: Sequence[Term], theirs: Sequence[Term]) -> list[ReadQuantity]:
    quantities, others = dict.fromkeys(term for term in mine if isinstance(term, Quantity)), set(theirs)
    return [read_quantity(quantity, quantity not in others) for quantity in quantities]


UNITS = {"celsius": "°C", "fahrenheit": "°F", "g-force": "x g", "cells": "cells", "wells": "wells"}
TIMES = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}
WEEK_HOURS = 168  # rates are per week, and shown per hour
SHOWN = Context(prec=6)
JOINTS = {"range": "–", "tolerance": " ± "}


def read_quantity(quantity: Quantity, wrong: bool) -> ReadQuantity:
    values, unit = _scaled(quantity)
    numbers = [_number(value) for value in values]
    if quantity.dimension == "ratio":
        said = ":".join(numbers)
    elif quantity.dimension == "pH":
        said = f"pH {numbers[0]}"
    elif quantity.kind in JOINTS:
        said = f"{JOINTS[quantity.kind].join(numbers)} {unit}".rstrip()
    else:
        said = f"{quantity.kind} {numbers[0]} {unit}".strip()
    return ReadQuantity(text=quantity.written, read=said, dimension=quantity.dimension, kind=quantity.kind, wrong=wrong)


def _scaled(quantity: Quantity) -> tuple[list[Decimal], str]:
    """Return the values in a unit in which they are neither very large nor very small."""
    values = [Decimal(mantissa).scaleb(exponent) for mantissa, exponent in quantity.values]
    dimension, _, per = quantity.dimension.partition("/")
    if dimension in ("", "ratio", "pH"):
        return values, ""
    if per == "time":
        values = [value / WEEK_HOURS for value in values]
    largest = max(map(abs, values)) or Decimal(10) ** BASE_POWER
    size = Decimal(10) ** BASE_POWER
    if dimension == "time":
        unit = next((name for name, seconds in TIMES.items() if largest >= seconds * size), "s")
        size *= TIMES[unit]
    else:
        powers = {power for power in SPELLINGS[dimension].values() if not power % 3}
        power = max((p for p in powers if largest >= size.scaleb(p)), default=min(powers))
        unit, size = _unit(dimension, power), size.scaleb(power)
    if per:
        unit += f"/{'h' if per == 'time' else _unit(per, 0)}"
    return [value / size for value in values], unit


def _unit(dimension: str, power: int) -> str:
    spellings = (name for name, size in SPELLINGS[dimension].items() if size == power)
    return UNITS.get(dimension) or min(spellings, key=len, default=dimension)


def _number(value: Decimal) -> str:
    value = SHOWN.plus(value).normalize()
    return f"{value:f}" if not value or -5 < value.adjusted() < 6 else str(value).lower()

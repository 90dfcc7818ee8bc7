"""Doses, which are values with a unit, in other amounts and in other units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import islice

from ...kernels.text.quantities import MAX_DIGITS
from ...kernels.text.words import UNITS
from ...service.explain.quantities import KINDS
from ...service.explain.reading import Step, canons

VALUE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
RANGE = re.compile(rf"{VALUE.pattern}(?:-[0-9]+(?:\.[0-9]+)?)?")
Dose = tuple[str, str]
"""A value or a range, and its unit, as canonical words."""


def with_doses(steps: Sequence[Step], change: Callable[[str, str], Dose]) -> list[Step]:
    """Return steps whose parameters have other doses; a parameter without a dose that changes stays as it is."""
    texts = iter(canons([text for step in steps for text in step.parameters]))
    changed = []
    for step in steps:
        canonical = islice(texts, len(step.parameters))
        parameters = (changed_text(*pair, change) for pair in zip(step.parameters, canonical, strict=True))
        changed.append(step._replace(parameters=tuple(parameters)))
    return changed


def changed_text(text: str, canon: str, change: Callable[[str, str], Dose]) -> str:
    words, same = canon.split(" "), True
    for k in range(len(words) - 1):
        if words[k + 1] in UNITS and RANGE.fullmatch(words[k]):
            dose = change(words[k], words[k + 1])
            same = same and dose == (words[k], words[k + 1])
            words[k], words[k + 1] = dose
    return text if same else " ".join(words)


def multiplied(value: str, unit: str) -> Dose:
    """Multiply a value, or both ends of a range, by 100."""
    return re.sub(r"[0-9]+(?:\.[0-9]+)?", lambda number: plain(100 * Decimal(number[0])), value), unit


def converted(value: str, unit: str) -> Dose:
    """Write a value in the next smaller unit, or else in a larger one; ranges and other doses stay as they are."""
    if VALUE.fullmatch(value) and unit in KINDS and digits(value) <= MAX_DIGITS:
        kind, factor = KINDS[unit]
        for other in by_closeness(kind, factor):
            number = exact(Fraction(value) * factor / KINDS[other][1])
            if digits(number) in range(1, MAX_DIGITS + 1):
                return number, other
    return value, unit


def by_closeness(kind: int | str, factor: int) -> Iterable[str]:
    """Return the other units of a kind: smaller ones first, the closest of them first, then larger ones."""
    others = [(other_factor, name) for name, (other, other_factor) in KINDS.items() if other == kind]
    smaller = sorted(((size, name) for size, name in others if size < factor), reverse=True)
    return [name for _, name in (*smaller, *sorted((size, name) for size, name in others if size > factor))]


def exact(number: Fraction) -> str:
    """Return a number as a decimal, or an empty text if it has no finite one."""
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return plain(Decimal(number.numerator) / Decimal(number.denominator)) if rest == 1 else ""


def plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def digits(value: str) -> int:
    """Return the number of significant digits of a value; 1 of zero, and 0 of an empty text."""
    return len(value.lstrip("-").replace(".", "").strip("0")) or bool(value)

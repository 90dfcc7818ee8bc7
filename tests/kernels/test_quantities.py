"""Terms of elements: worked examples, and random ones, by the kernel and by the textbook twin."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from assay.service.explain.quantities import terms_of
from tests.cases.quantities import TERMS
from tests.kernels.random_elements import random_elements
from tests.reference.quantities import Quantity, Term, terms
from tests.reference.units import UNITS


def kernel_terms(element: str) -> list[Term]:
    return [
        term if isinstance(term, str) else Quantity(term.dimension, term.kind, tuple(map(decimal_of, term.values)))
        for term in terms_of(element)
    ]


def decimal_of(value: tuple[int, int]) -> Decimal:
    """Return the exact value of digits and an exponent."""
    digits, exponent = value
    return Decimal(f"{digits}e{exponent}")


def assert_agree(elements: list[str]) -> None:
    different = [element for element in elements if kernel_terms(element) != terms(element)]
    if different:
        rows = [f"{element!a}: {kernel_terms(element)}, the twin {terms(element)}" for element in different[:5]]
        pytest.fail(f"{len(different)} elements differ, the first:\n" + "\n".join(rows))


@pytest.mark.parametrize("element", TERMS)
def test_elements(element: str):
    assert terms(element) == TERMS[element]
    assert kernel_terms(element) == TERMS[element]


def test_random_elements():
    assert_agree(random_elements(seed=4, count=3_000))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_more_random_elements(seed: int):
    assert_agree(random_elements(seed, count=10_000))


SYMBOLS = {
    "volume": ("l", "L"),
    "mass": ("g", "g"),
    "length or molarity": ("m", "m"),
    "amount": ("mol", "mol"),
    "voltage": ("v", "V"),
    "current": ("a", "A"),
    "frequency": ("hz", "Hz"),
    "pressure": ("pa", "Pa"),
    "bar": ("bar", "bar"),
    "molecular mass": ("da", "Da"),
    "time": ("", ""),
}
"""The dimensions about which a library of units has an opinion, with a symbol of ours and of the library."""
MEGA = {"mhz": "MHz", "mpa": "MPa", "mda": "MDa"}
ABBREVIATIONS = {"secs": "sec", "mins": "min", "hrs": "hr", "wk": "week", "wks": "week", "msec": "ms"}


def library_name(spelling: str) -> str:
    """Return the library's name of a unit, whose symbols have a case."""
    symbol, library_symbol = SYMBOLS[UNITS[spelling].dimension]
    if spelling in MEGA | ABBREVIATIONS:
        return (MEGA | ABBREVIATIONS)[spelling]
    if symbol and spelling.endswith(symbol) and len(spelling) <= len(symbol) + 1:
        return spelling.removesuffix(symbol) + library_symbol
    return spelling


def kernel_size(unit: str) -> Fraction:
    (quantity,) = kernel_terms(f"1 {unit}")
    assert isinstance(quantity, Quantity)
    return Fraction(quantity.values[0])


def test_sizes_of_units_are_those_of_pint():
    """In each dimension, for every spelling and for ratios of units."""
    registry: Any = pytest.importorskip("pint").UnitRegistry(non_int_type=Fraction)
    spellings = [spelling for spelling, unit in UNITS.items() if unit.dimension in SYMBOLS]
    ours: dict[str, list[tuple[Fraction, Any]]] = defaultdict(list)
    for spelling in spellings:
        ours[UNITS[spelling].dimension].append((kernel_size(spelling), registry(library_name(spelling))))
    for spelling in [name for name in spellings if UNITS[name].dimension == "length or molarity" and len(name) < 3]:
        molar = registry(spelling.removesuffix("m") + "M")
        ours["molarity"].append((kernel_size(spelling), molar))
    samples = ["ml", "l", "µg", "kg", "nmol", "mol", "s", "min", "d", "wk", "kv", "mbar"]
    for dividend, divisor in product(samples, repeat=2):
        size = kernel_size(f"{dividend}/{divisor}")
        names = [library_name(name.replace("µ", "μ")) for name in (dividend, divisor)]
        dimensions = tuple(UNITS[name.replace("µ", "μ")].dimension for name in (dividend, divisor))
        name = "molarity" if dimensions == ("amount", "volume") else "/".join(dimensions)
        ours[name].append((size, registry(names[0]) / registry(names[1])))
    assert sum(map(len, ours.values())) > 250
    for group in ours.values():
        first_size, first = group[0]
        for size, quantity in group[1:]:
            assert quantity.to(first.units).magnitude / first.magnitude == size / first_size, quantity

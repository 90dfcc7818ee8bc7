"""Terms of elements: worked examples, and random ones, by the kernel and by the textbook twin."""

from __future__ import annotations

from decimal import Decimal

import pytest

from assay.service.explain.quantities import terms_of
from tests.cases.quantities import TERMS
from tests.kernels.random_elements import random_elements
from tests.reference.quantities import Quantity, Term, terms


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

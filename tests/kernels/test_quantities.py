"""Terms of elements: worked examples, and random ones, by the kernel and the textbook twin."""

from __future__ import annotations

import pytest

from tests.cases.quantities import TERMS
from tests.reference.quantities import terms


@pytest.mark.parametrize("element", TERMS)
def test_elements(element: str):
    assert terms(element) == TERMS[element]

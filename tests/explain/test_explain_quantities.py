"""Quantities of parameters as explanations show them: how they are read, which are wrong, and what to write instead."""

from __future__ import annotations

import pytest

from assay.service.explain.quantities import quantity_limits


@pytest.mark.parametrize(
    ("parameter", "sentences"),
    [
        ("wash three times", ["“wash three times” is read as words: write its number in digits"]),
        ("310 K", ["“310 K” is no temperature: kelvin is not read"]),
        ("1⅓ ml", ["“1⅓” is not read as a fraction"]),
    ],
)
def test_parts_that_are_not_the_quantity_meant(parameter: str, sentences: list[str]) -> None:
    assert list(quantity_limits(parameter)) == sentences


@pytest.mark.parametrize(
    "parameter", ["0.5 ml", ".5 ml", "½ ml", "1 h 30 min", "50 µg/ml", "one tube", "5 kb", "1:10", ""]
)
def test_other_parameters(parameter: str) -> None:
    assert list(quantity_limits(parameter)) == []

"""Doses in other amounts and units, beside exact fractions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.check.policies import converted, multiplied, with_doses
from assay.service.explain.reading import ReadStep

SIZES = (
    {"s": 1, "min": 60, "h": 3600, "d": 86400},
    {"nl": 1, "μl": 10**3, "ml": 10**6, "l": 10**9},
    {"ng": 1, "μg": 10**3, "mg": 10**6, "g": 10**9, "kg": 10**12},
    {"nm": 1, "μm": 10**3, "mm": 10**6, "cm": 10**7},
)


@pytest.mark.parametrize(
    ("text", "times_100", "other_unit"),
    [
        ("0.5 ml", "50 ml", "500 μl"),
        ("into a 1.5ml tube", "into a 150 ml tube", "into a 1500 μl tube"),
        ("12,000 × g", "1200000 xg", "12,000 × g"),
        ("3-5 minutes", "300-500 min", "3-5 minutes"),
        ("at 4 °C for 2 h", "at 400 c for 200 h", "at 4 c for 120 min"),
        ("30 s", "3000 s", "0.5 min"),
        ("10 s", "1000 s", "10 s"),
        ("50 nl", "5000 nl", "0.05 μl"),
        ("ph 7.5, Gently", "ph 7.5, Gently", "ph 7.5, Gently"),
        ("", "", ""),
    ],
)
def test_doses_of_a_parameter(text: str, times_100: str, other_unit: str) -> None:
    steps = [ReadStep("add", ("5 ml tube",), ("Gently", text)), ReadStep("mix")]
    for change, expected in ((multiplied, times_100), (converted, other_unit)):
        assert with_doses(steps, change) == [ReadStep("add", ("5 ml tube",), ("Gently", expected)), ReadStep("mix")]


@given(st.decimals("0.0001", 10**9, places=4), st.sampled_from([(sizes, unit) for sizes in SIZES for unit in sizes]))
def test_the_amount_is_the_same_in_another_unit(value, chosen) -> None:
    sizes, unit = chosen
    number, other = converted(f"{value:f}", unit)
    assert Fraction(number) * sizes[other] == Fraction(value) * sizes[unit]
    assert other != unit or unit == "s" or len(f"{value:f}".replace(".", "").strip("0")) > 9

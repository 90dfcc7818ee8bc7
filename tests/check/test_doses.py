"""Doses in other amounts and units, beside exact fractions, and reversed ratios."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.research.check.policies import (
    DOSE,
    SIZES,
    converted,
    limited,
    listed,
    multiplied,
    reversed_ratios,
    with_doses,
)
from assay.service.explain.reading import ReadStep


@pytest.mark.parametrize(
    ("text", "times_100", "other_unit", "limit"),
    [
        ("0.5 ml", "50 ml", "500 μl", "<0.5 ml"),
        ("into a 1.5ml tube", "into a 150ml tube", "into a 1500 μl tube", "into a <1.5ml tube"),
        ("12,000 × g", "1200000 × g", "12,000 × g", "<12,000 × g"),
        ("1,200 µL", "120000 µL", "1200000 nl", "<1,200 µL"),
        ("3-5 minutes", "300-500 minutes", "3-5 minutes", "<3-5 minutes"),
        ("at 4 °C for 2 h", "at 400 °C for 200 h", "at 4 °C for 120 min", "at <4 °C for <2 h"),
        ("−80 °C, -80 °C", "−8000 °C, -8000 °C", "−80 °C, -80 °C", "<−80 °C, <-80 °C"),
        ("50 µg/ml", "5000 µg/ml", "50000 ng/ml", "<50 µg/ml"),
        ("30 s", "3000 s", "0.5 min", "<30 s"),
        ("10 s", "1000 s", "10 s", "<10 s"),
        ("50 nl", "5000 nl", "0.05 μl", "<50 nl"),
        ("ph 7.5, Gently", "", "", ""),
        ("1:1000, 10^6 cells, buffer P2 d, 5 mlx", "", "", ""),
        ("", "", "", ""),
    ],
)
def test_doses_of_a_parameter(text: str, times_100: str, other_unit: str, limit: str) -> None:
    steps = [ReadStep("add", ("5 ml tube",), ("Gently", text)), ReadStep("mix")]
    for change, expected in ((multiplied, times_100), (converted, other_unit), (limited, limit)):
        changed = [ReadStep("add", ("5 ml tube",), ("Gently", expected)), ReadStep("mix")]
        assert with_doses(steps, change) == (listed(changed) if expected not in ("", text) else None)


def test_only_the_first_dose() -> None:
    steps = [ReadStep("mix"), ReadStep("add", (), ("gently", "5 ml, 2 s")), ReadStep("add", (), ("7 h",))]
    changed = [ReadStep("mix"), ReadStep("add", (), ("gently", "500 ml, 2 s")), ReadStep("add", (), ("7 h",))]
    assert with_doses(steps, multiplied, only_first=True) == listed(changed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1:1000", "1000:1"),
        ("diluted 1 : 50 in PBS", "diluted 50 : 1 in PBS"),
        ("1/10, 3:1.", "10/1, 1:3."),
        ("1:1", "1:1"),
        ("25:24:1", "25:24:1"),
        ("1:2.5, 1.5:2, a/3", "1:2.5, 1.5:2, a/3"),
    ],
)
def test_reversed_ratios(text: str, expected: str) -> None:
    assert reversed_ratios(text) == expected


@given(st.decimals("0.0001", 10**9, places=4), st.sampled_from([(sizes, unit) for sizes in SIZES for unit in sizes]))
def test_the_amount_is_the_same_in_another_unit(value, chosen) -> None:
    sizes, unit = chosen
    dose = DOSE.fullmatch(f"{value:f} {unit}")
    assert dose is not None
    number, other = converted(dose).split(" ")
    assert Fraction(number) * sizes[other] == Fraction(value) * sizes[unit]
    assert other != unit or unit == "s" or len(f"{value:f}".replace(".", "").strip("0")) > 10

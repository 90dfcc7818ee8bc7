"""Parameters whose amounts quantities do not tell, beside what the textbook reads."""

from __future__ import annotations

import pytest

from assay.service.explain.quantities import quantity_limits


@pytest.mark.parametrize(
    ("parameter", "sentences"),
    [
        ("add .5 ml", ["“.5 ml” is read as 5 ml"]),
        ("(-.5°C)", ["“-.5°C” is read as 5 c"]),
        ("½ ml", ["“½ ml” is read as 1 and 2 ml"]),
        ("1 ½ h", ["“1 ½ h” is read as 1 and 1 and 2 h"]),
        ("1/2 ml", ["“1/2 ml” is read as 1 and 2 ml"]),
        ("10⁶ ml", ["“10⁶ ml” is read as 10 and 6 ml"]),
        ("5 × 10^-3 l", ["“10^-3 l” is read as 10 and -3 l"]),
        ("for 1 h 30 min at rt", ["“1 h 30 min” is not read as one quantity"]),
        ("1h30min", ["“1h30min” is not read as one quantity"]),
        ("2 hours and 5 Minutes", ["“2 hours and 5 Minutes” is not read as one quantity"]),
        ("50 µg/ml", ["“50 µg/ml” is not equal to the same ratio in other units"]),
        ("0.5 ml per 20 g", ["“0.5 ml per 20 g” is not equal to the same ratio in other units"]),
        (
            "½ h, then 12,000 ng/µL",
            ["“½ h” is read as 1 and 2 h", "“12,000 ng/µL” is not equal to the same ratio in other units"],
        ),
    ],
)
def test_parts_that_are_not_the_quantity_meant(parameter: str, sentences: list[str]) -> None:
    assert list(quantity_limits(parameter)) == sentences


@pytest.mark.parametrize(
    "parameter",
    [
        *("0.5 ml", "5 ml", "3-5 min", "12,000 xg", "10⁶ cells/ml", "1:10", "5 % w/v", "30 min 1 h", "5 min, 10 s"),
        *("fig.5", "v1.5 s", "cm²", "10 c 5 min", "1/2 dilution", "ph 7.5", "5 ml tube and 3 plates", ""),
    ],
)
def test_other_parameters(parameter: str) -> None:
    assert list(quantity_limits(parameter)) == []


def test_long_parameters_take_linear_time() -> None:
    for part in ("1", "1 ", "1 h ", "1,000", ".5 ml", "½", "1/"):
        for _ in quantity_limits(part * (20_000 // len(part))):
            pass

"""Sample completions of trainers, and checks of the metrics they get."""

from __future__ import annotations

import math
from typing import Any

from tests.http.samples import PERFECT, SWAPPED, SWAPPED_REWARD

TEXTS = [PERFECT, SWAPPED, "nothing"]
EXPECTED = [1.0, SWAPPED_REWARD, 0.0]


def check_numbers(numbers: dict[str, Any], names: set[str]) -> None:
    assert numbers.keys() == names
    assert all(type(value) is float and math.isfinite(value) for value in numbers.values())

"""A reference, responses to it with known rewards, and the numbers that come beside them."""

from __future__ import annotations

import math

from assay_client.adapters.metrics import METRICS
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, SWAPPED_REWARD

__all__ = ["EXPECTED", "GONE", "METRICS", "PERFECT", "REFERENCE", "TEXTS", "all_finite"]

TEXTS = [PERFECT, SWAPPED, "nothing"]
EXPECTED = [1.0, SWAPPED_REWARD, 0.0]
GONE = "http://127.0.0.1:9"
"""Nothing listens there."""


def all_finite(numbers: dict[str, float]) -> bool:
    return all(isinstance(value, float) and math.isfinite(value) for value in numbers.values())

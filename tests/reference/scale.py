"""Step scale (paper eq. 3; docs/rules.md, Step scale)."""

import math
from typing import Any

from .steps import OrcStep


def step_gap(n: int, m: int) -> float:
    """Return f: 1 for equal numbers of steps, falling along a quarter cosine to 0 at a difference of M."""
    d = abs(n - m)
    M = max(1, 6 * m // 10)
    return math.cos(math.pi * d / (2 * M)) if d < M else 0.0


def mean_words(orc: list[OrcStep]) -> float:
    """Return L̄, the mean number of white-space separated tokens of the steps' raw text."""
    return sum(len(step.text.split()) for step in orc) / len(orc)


def length_penalty(mean: float, settings: dict[str, Any]) -> float:
    """Return g: 1 up to L words, above it L̄ as printed or L̄ / L."""
    L = settings["max_mean_words"]
    if mean <= L:
        return 1.0
    return mean if settings["length_penalty"] == "absolute" else mean / L


def step_scale(f: float, mean: float, settings: dict[str, Any]) -> float:
    """Return r_scale = f / g."""
    numerator = f if settings["use_step_gap"] else 1.0
    return numerator / length_penalty(mean, settings) if settings["use_length"] else numerator

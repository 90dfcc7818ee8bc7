"""The step-scale reward (paper eq. 3; docs/rules.md, Step scale)."""

from __future__ import annotations

import math

from ..compiler.jit import helper
from ..rules import STEP_GAP_DENOMINATOR, STEP_GAP_NUMERATOR

__all__ = ["length_penalty", "step_gap"]


@helper
def step_gap(n, m):
    """Return f = cos(πd / 2M) of the gap d between n predicted and m reference steps, 0 from d = M on."""
    d = abs(n - m)
    M = max(1, STEP_GAP_NUMERATOR * m // STEP_GAP_DENOMINATOR)
    return math.cos(math.pi * d / (2 * M)) if d < M else 0.0


@helper
def length_penalty(mean_words, rules):
    """Return g: 1 for a mean of up to L words, else the mean as printed in eq. 3, or the mean over L."""
    if mean_words <= rules.max_mean_words:
        return 1.0
    return mean_words / rules.max_mean_words if rules.relative_length else mean_words

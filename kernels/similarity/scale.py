"""The step-scale reward (paper eq. 3, SCORE.md section 4)."""

from __future__ import annotations

import math

from ..compiler.jit import helper

__all__ = ["length_penalty", "step_gap"]


@helper
def step_gap(n, m):
    """f: cos(πd / 2M) of the gap d between n predicted and m reference steps, 0 from M = max(1, ⌊0.6 m⌋) on."""
    d = abs(n - m)
    limit = max(1, 6 * m // 10)
    return math.cos(math.pi * d / (2 * limit)) if d < limit else 0.0


@helper
def length_penalty(mean_words, rules):
    """g: 1 up to L words a step; above, the mean as printed in eq. 3, or over L."""
    if mean_words <= rules.max_mean_words:
        return 1.0
    return mean_words / rules.max_mean_words if rules.relative_length else mean_words

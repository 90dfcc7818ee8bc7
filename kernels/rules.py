"""Settings and constants of the reward as kernels read them: plain numbers (docs/rules.md, Settings)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "DOUBLE",
    "MIN_OBJECT_SIMILARITY",
    "PARAMETER_WEIGHT",
    "RAW",
    "SHIFT",
    "STEP_GAP_DENOMINATOR",
    "STEP_GAP_NUMERATOR",
    "UNIT",
    "Rules",
]

STEP_GAP_NUMERATOR, STEP_GAP_DENOMINATOR = 6, 10
"""0.6 of M = max(1, ⌊0.6 m⌋), from which step gap on f is 0 (docs/rules.md, Step scale); a fraction keeps it exact."""

PARAMETER_WEIGHT = 0.5
"""½ of m_ij (Obj + ½ Par), the weight of the parameters of an anchor (docs/rules.md, Step semantics)."""

MIN_OBJECT_SIMILARITY = 0.5
"""The least Obj for which Par counts (docs/rules.md, Step semantics)."""

UNIT, RAW, DOUBLE, SHIFT = 0, 1, 2, 3
"""Values of `Rules.reward_scale` (Table 22)."""


class Rules(NamedTuple):
    """One configuration; the order of the fields is part of the kernels' signatures."""

    lcs_order: bool
    product_semantics: bool
    sum_total: bool
    max_len_content: bool
    relative_length: bool
    reward_scale: int
    largest_score: float  # S
    min_coverage: float  # τ
    max_mean_words: float  # L
    max_object_similarity: bool
    position_decay: float  # λ
    use_step_gap: bool
    use_length: bool
    use_position: bool
    use_order: bool
    think_prefilled: bool
    max_response_bytes: int
    max_steps: int

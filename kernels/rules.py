"""Constants of the paper's rules, by their symbols, and the reason codes of responses."""

from __future__ import annotations

from typing import NamedTuple

STEP_GAP_NUMERATOR, STEP_GAP_DENOMINATOR = 6, 10
"""0.6 of M = max(1, ⌊0.6 m⌋), from which step gap on f is 0 (docs/rules.md, Step scale); a fraction keeps it exact."""

PARAMETER_WEIGHT = 0.5
"""½ of m_ij (Obj + ½ Par), the weight of the parameters of an anchor (docs/rules.md, Step semantics)."""

MIN_OBJECT_SIMILARITY = 0.5
"""The least Obj for which Par counts (docs/rules.md, Step semantics)."""

UNIT, RAW, DOUBLE, SHIFT = 0, 1, 2, 3
"""Values of `Rules.reward_scale` (Table 22)."""


NO_LIMIT = -1
"""Value of `Rules.max_added_numbers` and `max_added_words` without a limit."""


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
    quantities: bool
    word_coverage: bool
    quantity_error_factor: float  # q
    max_added_words: int  # k, or NO_LIMIT
    max_added_numbers: int  # likewise
    position_decay: float  # λ
    use_step_gap: bool
    use_length: bool
    use_position: bool
    use_order: bool
    think_prefilled: bool
    max_response_bytes: int
    max_steps: int


REASONS = (
    "ok",
    "too_long",
    "think_not_opened",
    "missing_sections",
    "no_steps",
    "bad_step_line",
    "bad_step_json",
    "bad_step_schema",
    "key_numbering",
    "orc_numbering",
    "step_count",
    "low_coverage",
    "added_numbers",
    "added_words",
)

OK = 0
TOO_LONG = 1
THINK_NOT_OPENED = 2
MISSING_SECTIONS = 3
NO_STEPS = 4
BAD_STEP_LINE = 5
BAD_STEP_JSON = 6
BAD_STEP_SCHEMA = 7
KEY_NUMBERING = 8
ORC_NUMBERING = 9
STEP_COUNT = 10
LOW_COVERAGE = 11
ADDED_NUMBERS = 12
ADDED_WORDS = 13

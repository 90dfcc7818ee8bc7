"""The tasks that give rewards, with their components and reasons, as in the service; all lists are append-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SCORE = "score"

COMPONENTS = (
    "format",
    "consistency",
    "coverage",
    "step_gap",
    "mean_words",
    "scale",
    "order",
    "content",
    "semantics",
    "anchors",
    "score",
    "quantity_errors",
)
"""Names of SCORE's components, in the order of replies; every reply with components has all of them."""

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
"""SCORE's reasons by their code: 0 is `ok`, the others say why a response could not be scored."""

SCORE_SETTINGS = (
    "order",
    "semantics",
    "total",
    "content_denominator",
    "length_penalty",
    "reward_scale",
    "min_coverage",
    "max_mean_words",
    "object_similarity",
    "parameter_similarity",
    "coverage",
    "quantity_error_factor",
    "max_added_words",
    "max_added_numbers",
    "position_decay",
    "use_step_gap",
    "use_length",
    "use_position",
    "use_order",
    "think_prefilled",
    "advantage_ddof",
    "max_response_bytes",
    "max_steps",
)
"""Names of SCORE's settings, to recognize one in the wrong place; the service knows their values."""

OWN_COMPONENTS: dict[str, tuple[str, ...]] = {
    SCORE: COMPONENTS,
    "bioprobench.pqa": ("accuracy", "brier", "confidence"),
    "bioprobench.ord": ("exact_match", "kendall_tau"),
    "bioprobench.err": ("accuracy", "called_erroneous"),
    "lexical": ("text_similarity",),
    "bioplanner": ("order_similarity", "function_precision", "function_recall"),
    "sgi.wet_experiment": ("action_sequence_similarity", "parameter_accuracy"),
}

REWARD_TASKS = tuple(OWN_COMPONENTS)
"""Names of the tasks by their number."""

TASK_COMPONENTS = tuple(dict.fromkeys(name for names in OWN_COMPONENTS.values() for name in names))
"""Components of replies to requests that name a task other than SCORE or a list of tasks: 0 where a task lacks one."""

TASK_REASONS: dict[str, tuple[str, ...]] = {
    SCORE: REASONS,
    "bioprobench.pqa": (
        "ok",
        "not_text",
        "no_markers",
        "several_separators",
        "no_confidence",
        "confidence_over_100",
        "empty",
        "too_long",
        "out_of_time",
        "not_separated",
        "confidence_out_of_range",
    ),
    "bioprobench.ord": (
        "ok",
        "not_text",
        "no_markers",
        "not_literal",
        "not_indices",
        "repeats",
        "missing_steps",
        "extra_steps",
        "one_based",
        "no_list",
        "zero_based",
        "too_long",
        "out_of_time",
        "not_a_list",
        "not_permutation",
        "other_length",
        "not_hashable",
        "not_unique",
        "other_steps",
    ),
    "bioprobench.err": ("ok", "not_text", "no_markers", "no_truth_value", "too_long", "out_of_time", "unclear"),
    "lexical": ("ok", "too_long", "out_of_time"),
    "bioplanner": ("ok", "syntax_error", "too_large", "no_calls", "too_long", "out_of_time"),
    "sgi.wet_experiment": ("ok", "no_steps", "too_long", "out_of_time"),
}
"""The reasons of each task by their code."""

OUT_OF_TIME = "out_of_time"
"""In place of a reason: the service had no time left for this response, which has no reward."""

PASSED_IF: dict[str, tuple[str, ...]] = {
    SCORE: ("consistency", "order"),
    "bioprobench.pqa": ("accuracy",),
    "bioprobench.ord": ("exact_match",),
    "bioprobench.err": ("accuracy",),
    "lexical": ("text_similarity",),
    "bioplanner": ("order_similarity",),
    "sgi.wet_experiment": ("action_sequence_similarity", "parameter_accuracy"),
}
"""The components of each task that are 1 if a response passes."""

ROUNDING = 1e-9
"""Tolerance of a component that must be 1: the similarity of equal texts is 1 only up to rounding."""


def components_of(task: str | Sequence[str]) -> tuple[str, ...]:
    return COMPONENTS if task == SCORE else TASK_COMPONENTS


def has_passed(task: str, components: Mapping[str, float]) -> float:
    return float(all(abs(components[name] - 1) <= ROUNDING for name in PASSED_IF[task]))

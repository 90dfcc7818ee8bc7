"""SCORE and the reward (docs/rules.md, Score and reward)."""

from typing import Any

DEFAULTS: dict[str, Any] = {
    "order": "strict",
    "semantics": "sum",
    "total": "product",
    "content_denominator": "matched",
    "length_penalty": "absolute",
    "reward_scale": "unit",
    "min_coverage": 0.95,
    "max_mean_words": 30.0,
    "object_similarity": "fallback",
    "parameter_similarity": "words",
    "coverage": "substring",
    "quantity_error_factor": 1.0,
    "max_added_words": None,
    "max_added_numbers": None,
    "position_decay": 1.5,
    "use_step_gap": True,
    "use_length": True,
    "use_position": True,
    "use_order": True,
    "think_prefilled": False,
    "advantage_ddof": 1,
    "max_response_bytes": 262144,
    "max_steps": 1024,
}


def complete_settings(overrides: dict[str, Any] | None) -> dict[str, Any]:
    """Return the defaults with the overrides applied; raises KeyError for an unknown name."""
    unknown = (overrides or {}).keys() - DEFAULTS.keys()
    if unknown:
        raise KeyError(*sorted(unknown))
    return DEFAULTS | (overrides or {})


def total(scale: float, semantics: float, errors: int, settings: dict[str, Any]) -> float:
    """Return the SCORE of a response that passes the gates: its total times q^E."""
    score = scale * semantics if settings["total"] == "product" else scale + semantics
    return score * settings["quantity_error_factor"] ** errors


def largest_score(settings: dict[str, Any]) -> float:
    """Return S, the largest SCORE that the configuration can give."""
    S = 2.5 if settings["semantics"] == "sum" and settings["use_order"] else 1.5
    return S + 1.0 if settings["total"] == "sum" else S


def reward(score: float, settings: dict[str, Any]) -> float:
    """Map SCORE by `reward_scale` (paper Table 22)."""
    S = largest_score(settings)
    return {"unit": score / S, "raw": score, "double": 2 * score, "shift": score - S / 2}[settings["reward_scale"]]

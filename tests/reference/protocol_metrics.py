"""The evaluation metrics of Appendix F, profile `paper` (docs/rules.md, Evaluation metrics)."""

import math
from collections.abc import Collection
from itertools import combinations

from .align import anchors
from .lcs import lcs_length
from .reward import complete_settings
from .scorer import MAX_REFERENCE_BYTES, ParsedReference, encodable
from .sections import find_sections
from .semantics import content, object_match, parameter_match, position_match
from .steps import BadStepError, KeyStep, key_step, lines

__all__ = ["MAX_REFERENCE_BYTES", "adherence", "paper_metrics", "predicted_steps"]

NOTHING = dict.fromkeys(
    ("step_m", "order_s", "order_lcs", "order_tau", "semantic_a", "mean_obj", "mean_par", "mean_position"), 0.0
)


def predicted_steps(response: str, think_prefilled: bool = False) -> list[KeyStep]:
    """Return the key steps of a response; none if sections or key do not parse or exceed the limits of the reward."""
    limits = complete_settings({})
    text = encodable(response)
    sections = find_sections("<think>" + text if think_prefilled else text)
    if len(text.encode()) > limits["max_response_bytes"] or sections is None:
        return []
    rows = lines(sections.key)
    if len(rows) > limits["max_steps"]:
        return []
    try:
        return [key_step(line) for line in rows]
    except BadStepError:
        return []


def kendall_tau(W: list[tuple[int, int]]) -> float:
    """Return (C - D) / (C + D) over all pairs of anchors; 0 without any."""
    signs = [(a[0] < b[0]) == (a[1] < b[1]) for a, b in combinations(W, 2)]
    return (2 * sum(signs) - len(signs)) / len(signs) if signs else 0.0


def mean(values: Collection[float]) -> float:
    return math.fsum(values) / len(values)


def paper_metrics(prediction: list[KeyStep], reference: ParsedReference) -> dict[str, float]:
    """Return every metric of one prediction."""
    if not prediction:
        return NOTHING
    n, m = len(prediction), len(reference)
    p, r = [step.action for step in prediction], [step.action for step in reference]
    W = anchors(p, r)
    metrics = NOTHING | {
        "step_m": float(n == m),
        "order_s": float(p == r),
        "order_lcs": 2 * lcs_length(p, r) / (n + m),
        "order_tau": kendall_tau(W),
    }
    if W:
        settings = complete_settings({})
        obj = [object_match(prediction[i], reference[j], "fallback") for i, j in W]
        par = [parameter_match(prediction[i], reference[j]) for i, j in W]
        metrics |= {
            "semantic_a": content(prediction, reference, W, settings),
            "mean_obj": mean(obj),
            "mean_par": mean([b if a >= 0.5 else 0.0 for a, b in zip(obj, par, strict=True)]),
            "mean_position": mean([position_match(i, j, m, settings["position_decay"]) for i, j in W]),
        }
    return metrics


def adherence(
    prediction: list[KeyStep], reference: ParsedReference, library: Collection[tuple[str, ...]]
) -> tuple[float, float] | None:
    """Return (share outside the library, share of distractors) of the predicted steps; None without any."""
    if not prediction:
        return None
    needed = {step.action for step in reference}
    outside = [step.action not in library for step in prediction]
    taken = [step.action in library and step.action not in needed for step in prediction]
    return mean(outside), mean(taken)

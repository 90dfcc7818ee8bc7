"""Step semantics (paper eq. 4 and 5, C.2, C.3; docs/rules.md, Step semantics)."""

import math
from collections import Counter
from typing import Any

from .align import anchors
from .iou import iou
from .lcs import lcs_length
from .quantities import all_terms, quantities
from .steps import KeyStep
from .subsequence import is_subsequence


def action_order(prediction: list, reference: list, mode: str) -> float:
    """Return 1 or 0 for `strict`, LCS / m for `lcs`."""
    if mode == "lcs":
        return lcs_length(prediction, reference) / len(reference)
    return float(is_subsequence(prediction, reference) or is_subsequence(reference, prediction))


def all_words(elements: list[tuple[str, ...]]) -> set[str]:
    return {word for element in elements for word in element}


def object_match(p: KeyStep, r: KeyStep, mode: str) -> float:
    """Return Obj(i, j): IoU of the objects, or of their words if that is 0 (`fallback`) or larger (`max`)."""
    whole, words = iou(p.objects, r.objects), iou(all_words(p.objects), all_words(r.objects))
    if mode == "max":
        return max(whole, words)
    return whole if whole > 0 else words


def parameter_match(p: KeyStep, r: KeyStep, mode: str = "words") -> float:
    """Return Par(i, j): IoU of the words of all parameters, or of their terms (`quantities`)."""
    if mode == "quantities":
        return iou(all_terms(p.parameter_texts), all_terms(r.parameter_texts))
    return iou(all_words(p.parameters), all_words(r.parameters))


def quantity_errors(p: KeyStep, r: KeyStep) -> int:
    """Return the wrong quantities of a matched step: in each dimension, the more of those added and those left out."""
    ours, theirs = quantities(p.parameter_texts), quantities(r.parameter_texts)
    added = Counter(quantity.dimension for quantity in ours - theirs)
    left_out = Counter(quantity.dimension for quantity in theirs - ours)
    return (added | left_out).total()


def position_match(i: int, j: int, m: int, decay: float) -> float:
    """Return m_ij = max(0, 1 - (|i - j| / m)^λ), which is 0 where |i - j| >= m."""
    return 1.0 - (abs(i - j) / m) ** decay if abs(i - j) < m else 0.0


def matches(
    prediction: list[KeyStep], reference: list[KeyStep], W: list[tuple[int, int]], settings: dict[str, Any]
) -> list[tuple[int, int, float]]:
    """Return i, j and m_ij (Obj + ½ Par) of every anchor."""
    pairs = []
    for i, j in W:
        obj = object_match(prediction[i], reference[j], settings["object_similarity"])
        par = parameter_match(prediction[i], reference[j], settings["parameter_similarity"]) if obj >= 0.5 else 0.0
        m_ij = position_match(i, j, len(reference), settings["position_decay"]) if settings["use_position"] else 1.0
        pairs.append((i, j, m_ij * (obj + 0.5 * par)))
    return pairs


def content(
    prediction: list[KeyStep], reference: list[KeyStep], W: list[tuple[int, int]], settings: dict[str, Any]
) -> float:
    """Return the mean over the anchors of m_ij (Obj + ½ Par), from their sum rounded once."""
    if not W:
        return 0.0
    total = math.fsum(value for _, _, value in matches(prediction, reference, W, settings))
    longer = max(len(prediction), len(reference))
    return total / (longer if settings["content_denominator"] == "max_len" else len(W))


def step_semantics(prediction: list[KeyStep], reference: list[KeyStep], settings: dict[str, Any]) -> dict[str, float]:
    """Return the components order, content, semantics, anchors and quantity_errors."""
    predicted_actions = [step.action for step in prediction]
    reference_actions = [step.action for step in reference]
    W = anchors(predicted_actions, reference_actions)
    order = action_order(predicted_actions, reference_actions, settings["order"])
    matched = content(prediction, reference, W, settings)
    if not settings["use_order"]:
        semantics = matched
    else:
        semantics = order + matched if settings["semantics"] == "sum" else order * matched
    counted = settings["quantity_error_factor"] < 1
    errors = sum(quantity_errors(prediction[i], reference[j]) for i, j in W) if counted else 0
    return {
        "order": order,
        "content": matched,
        "semantics": semantics,
        "anchors": len(W),
        "quantity_errors": errors,
    }

"""The evaluation metrics under profile `thoth`, written line for line from docs/rules.md, Evaluation metrics."""

import json
import re
from itertools import combinations

from .iou import iou
from .lcs import lcs_length

SECTIONS = re.compile(
    r"<think>(.*?)</think>\s*<key>(.*?)</key>\s*<orc>(.*?)</orc>\s*<note>(.*?)</note>", re.DOTALL | re.IGNORECASE
)
STEP = re.compile(r"^Step\s+\d+\s*:\s*(\{.*\})\s*$", re.IGNORECASE)
NAMES = ("step_m", "order_s", "order_lcs", "order_tau", "semantic_a", "mean_obj", "mean_par", "mean_position")


def key_lines(text: str) -> list[str]:
    match = SECTIONS.search(text)
    block = match[2] if match else text
    return [line.rstrip() for line in block.strip().splitlines() if line.strip()]


def step_objects(lines: list[str]) -> list[dict]:
    objects = []
    for line in lines:
        form = STEP.match(line)
        if form:
            try:
                value = json.loads(form[1])
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict) and value:
                objects.append(value)
    return objects


def strings(values) -> list[str]:
    return [value.strip().lower() for value in values if isinstance(value, str) and value.strip()]


def fields(value: dict) -> tuple[str, list[str], list[str]]:
    """Raise for values of other types; then every metric of the record is 0."""
    action = value.get("action", "").strip().lower()
    return action, strings(value.get("objects", [])), strings(value.get("parameters", []))


def words(elements: list[str]) -> set[str]:
    return {piece for piece in re.split(r"[^a-z0-9%\u00b5\u03bc\-\._]+", " ".join(elements)) if piece}


def anchors(p: list[str], r: list[str]) -> list[tuple[int, int]]:
    W, position = [], 0
    for i, action in enumerate(p):
        if action not in r[position:]:
            position = len(r)
            continue
        position = r.index(action, position)
        W.append((i, position))
        position += 1
    return W


def thoth_metrics(response: str, reference: str) -> dict[str, float]:
    predicted_lines, reference_lines = key_lines(response), key_lines(reference)
    try:
        prediction = [fields(value) for value in step_objects(predicted_lines)]
        expected = [fields(value) for value in step_objects(reference_lines)]
    except (AttributeError, TypeError):
        return dict.fromkeys(NAMES, 0.0)
    p, r = [step[0] for step in prediction], [step[0] for step in expected]
    W = anchors(p, r)
    obj, par, position = [], [], []
    for i, j in W:
        (_, p_objects, p_parameters), (_, r_objects, r_parameters) = prediction[i], expected[j]
        obj.append(iou(p_objects, r_objects) or iou(words(p_objects), words(r_objects)))
        if not p_parameters or not r_parameters:
            similar = float(p_parameters == r_parameters)
        else:
            similar = iou(words(p_parameters), words(r_parameters))
        par.append(similar if obj[-1] >= 0.5 else 0.0)
        position.append(max(0.0, 1.0 - (abs(i - j) / len(r)) ** 1.5))
    pairs = [(a[0] < b[0]) == (a[1] < b[1]) for a, b in combinations(W, 2)]
    metrics = {
        "step_m": float(len(predicted_lines) == len(reference_lines)),
        "order_s": float(p == r),
        "order_lcs": 2 * lcs_length(p, r) / (len(p) + len(r)) if p or r else 1.0,
        "order_tau": (2 * sum(pairs) - len(pairs)) / len(pairs) if pairs else 0.0,
    }
    content = [m * (o + 0.5 * x) for m, o, x in zip(position, obj, par, strict=True)]
    columns = zip(NAMES[4:], (content, obj, par, position), strict=True)
    return metrics | {name: sum(values) / len(W) if W else 0.0 for name, values in columns}

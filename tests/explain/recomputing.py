"""A reward recomputed from an explanation's JSON alone (docs/rules.md, Gates to Score and reward), and places."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

from assay import Scorer
from assay.service.explain.explanation import explain
from assay.service.explain.schema import Explanation


def explained(response: str, reference: Any, settings: dict[str, Any], suggestions: int = 0) -> dict[str, Any]:
    """Return the explanation as its JSON, which must match its schema and the scorer's result bit for bit."""
    scorer = Scorer(**settings)
    text = explain(scorer, response, reference, suggestions).model_dump_json()
    document = json.loads(text)
    assert Explanation.model_validate_json(text).model_dump_json() == text
    scores = scorer.score([response], [reference])
    assert document["reward"] == scores.rewards[0]
    assert document["reason"] == scores.reasons[0]
    assert document["config_id"] == scorer.config_id
    assert document["signature"] == scorer.signature
    assert document["components"] == {name: column[0] for name, column in scores.components.items()}
    return document


def similarity(found: dict[str, Any]) -> float:
    """Return the IoU of the two listed sets."""
    union = len(found["shared"]) + len(found["missing"]) + len(found["extra"])
    return len(found["shared"]) / union if union else 1.0


def object_similarity(document: dict[str, Any], pair: dict[str, Any]) -> float:
    """Return Obj of the phrases of two steps (docs/rules.md, Step semantics)."""
    steps = document["prediction"][pair["predicted"] - 1], document["reference"][pair["reference"] - 1]
    a, b = ({tuple(phrase["words"]) for phrase in step["objects"] if phrase["words"]} for step in steps)
    if not (a and b):
        return 0.0 if a or b else 1.0
    v, w = ({word for words in objects for word in words} for objects in (a, b))
    whole, words = len(a & b) / len(a | b), len(v & w) / len(v | w)
    return max(whole, words) if document["config"]["object_similarity"] == "max" or not whole else whole


def content_of(document: dict[str, Any]) -> float:
    config, n, m = document["config"], len(document["prediction"]), len(document["reference"])
    values = []
    for pair in document["pairs"]:
        obj = similarity(pair["objects"])
        assert obj == pair["objects"]["value"] == object_similarity(document, pair)
        value = obj
        if obj >= 0.5:
            assert similarity(pair["parameters"]) == pair["parameters"]["value"]
            value += 0.5 * pair["parameters"]["value"]
        if config["use_position"]:
            distance = abs(pair["predicted"] - pair["reference"])
            value *= 0.0 if distance >= m else 1.0 - math.pow(distance / m, config["position_decay"])
        assert value == pair["value"]
        values.append(value)
    assert math.fsum(values) == (document["content"] or {"sum": 0.0})["sum"]
    if not document["pairs"]:
        return 0.0
    return math.fsum(values) / (max(n, m) if config["content_denominator"] == "max_len" else len(document["pairs"]))


def scale_of(document: dict[str, Any]) -> float:
    config, n, m = document["config"], len(document["prediction"]), len(document["reference"])
    limit = max(1, 6 * m // 10)
    f = math.cos(math.pi * abs(n - m) / (2 * limit)) if abs(n - m) < limit else 0.0
    mean = sum(step["pieces"] for step in document["prose"]) / len(document["prose"])
    g = 1.0
    if mean > config["max_mean_words"]:
        g = mean if config["length_penalty"] == "absolute" else mean / config["max_mean_words"]
    scale = f if config["use_step_gap"] else 1.0
    return scale / g if config["use_length"] else scale


def order_of(document: dict[str, Any]) -> float:
    order = document["order"]
    predicted, expected = order["predicted"], order["expected"]
    path = order["path"]
    assert [predicted[i - 1] for i, _ in path] == [expected[j - 1] for _, j in path]
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(path))
    if order["mode"] == "lcs":
        return len(path) / len(expected)
    return 1.0 if len(path) == min(len(predicted), len(expected)) else 0.0


def score_of(document: dict[str, Any]) -> float:
    """Return the SCORE of a response that passes the gates."""
    config, order, content = document["config"], order_of(document), content_of(document)
    semantics = content
    if config["use_order"]:
        semantics = order * content if config["semantics"] == "product" else order + content
    scale = scale_of(document)
    return scale + semantics if config["total"] == "sum" else scale * semantics


def reward_of(document: dict[str, Any]) -> float:
    """Return the reward of what the explanation lists."""
    config = document["config"]
    score = score_of(document) if all(check["passed"] for check in document["checks"]) else 0.0
    largest = document["largest_score"]
    mapped = {"unit": score / largest, "raw": score, "double": 2.0 * score, "shift": score - largest / 2.0}
    return mapped[config["reward_scale"]]


def assert_recomputes(document: dict[str, Any]) -> None:
    """Check that every number of the explanation follows from what it lists, bit for bit."""
    assert reward_of(document) == document["reward"]
    components = document["components"]
    listed = [step["coverage"] for step in document["prediction"] if step["coverage"] is not None]
    for coverage in listed:
        assert coverage["value"] == coverage["covered"] / coverage["total"]
        assert coverage["total"] == len(coverage["words"])
        assert coverage["uncovered"] == [use["word"] for use in coverage["words"] if not use["covered"]]
    if document["reason"] in ("ok", "low_coverage"):
        assert min(coverage["value"] for coverage in listed) == components["coverage"]
    if document["counted"]:
        assert scale_of(document) == components["scale"] == document["scale"]["value"]
        assert order_of(document) == components["order"] == document["order"]["value"]
        assert content_of(document) == components["content"] == document["content"]["value"]
    assert_chained(document)


def assert_chained(document: dict[str, Any]) -> None:
    """Check that the waterfall goes from the best score to this one without a gap, and never up."""
    factors = document["factors"]
    assert [factors[0]["name"], factors[-1]["name"]] == ["best", "score"]
    assert factors[0]["score"] == document["largest_score"]
    assert factors[-1]["score"] == document["score"]
    for before, after in pairwise(factors):
        assert after["change"] == after["score"] - before["score"]
        assert after["reward_change"] == after["reward"] - before["reward"]
        assert max(after["change"], after["reward_change"]) <= 1e-12
    assert factors[0]["reward"] == document["largest_reward"]
    assert factors[0]["reward_change"] == document["largest_reward"] - document["smallest_reward"]
    assert factors[-1]["reward"] == document["reward"]
    assert [equation["name"] for equation in document["equations"]][-2:] == ["score", "reward"]
    assert document["equations"][-1]["value"] == document["reward"]


def shown(text: str, place: dict) -> str:
    """Return the text of a place, read in each of its three units."""
    data, units = text.encode(), text.encode("utf-16-le")
    first, last = place["utf16"]
    parts = {
        data[slice(*place["bytes"])].decode(),
        text[slice(*place["characters"])],
        units[2 * first : 2 * last].decode("utf-16-le"),
    }
    assert len(parts) == 1
    before = text[: place["characters"][0]]
    assert place["line"] == 1 + len(before.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
    return parts.pop()


def assert_placed(response: str, document: dict[str, Any]) -> None:
    """Check that every place of the response is where its text is."""
    for step in [*document["prediction"], *document["prose"]]:
        assert shown(response, step["place"]) == step["text"]
    for step in document["prose"]:
        assert step["pieces"] == len(step["text"].split())
    for name, place in document["sections"].items():
        assert name == "found" or place is None or shown(response, place) is not None

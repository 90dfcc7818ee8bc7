"""A reward recomputed from an explanation's JSON alone (docs/rules.md, Gates to Score and reward), and places."""

from __future__ import annotations

import json
import math
import tomllib
from collections import Counter
from itertools import pairwise
from typing import Any

from assay import Scorer
from assay.service.explain.explanation import explain
from assay.service.explain.schema import Explanation
from tests.command_line import ROOT
from tests.reference.added_numbers import added_numbers
from tests.reference.added_words import NEGATIONS, added_words
from tests.reference.iou import iou
from tests.reference.quantities import all_terms, quantities, terms
from tests.reference.semantics import all_words
from tests.reference.steps import KeyStep, orc_steps

LABORATORY = tomllib.loads((ROOT / "examples" / "laboratory.toml").read_text(encoding="utf-8"))["score"]
MEASURED = ("ok", "low_coverage", "added_numbers", "added_words")
"""The reasons of responses whose coverage is measured."""


def explained(response: str, reference: Any, settings: dict[str, Any], suggestions: int = 0) -> dict[str, Any]:
    """Return the explanation as its JSON, which must match its schema and the scorer's result bit for bit."""
    scorer = Scorer(**settings)
    text = explain(scorer, response, reference, suggestions).model_dump_json()
    document = json.loads(text)
    assert Explanation.model_validate_json(text).model_dump_json() == text
    scores = scorer.score([response], [reference], steps=True)
    assert document["reward"] == scores.rewards[0]
    assert document["reason"] == scores.reasons[0]
    assert document["config_id"] == scorer.config_id
    assert document["signature"] == scorer.signature
    assert document["components"] == {name: column[0] for name, column in scores.components.items()}
    assert document["alternative"] == scores.alternative[0]
    assert_steps(document, scores.steps[0])
    any_of = [] if isinstance(reference, str) else reference.get("any_of", [])
    against = scorer.score([response] * len(any_of), any_of) if any_of else []
    assert [alternative["reward"] for alternative in document["alternatives"]] == [*(against.rewards if any_of else [])]
    return document


def assert_steps(document: dict[str, Any], steps: list[dict[str, Any]]) -> None:
    """Compare the explanation's steps with those of the column of steps, which has none if an earlier check failed."""
    for step, prose, entry in zip(document["prediction"], document["prose"], steps, strict=False):
        assert step["place"]["characters"] == [entry["start"], entry["end"]]
        assert prose["place"]["characters"][1] == entry["orc_end"] or not prose["text"]
        assert step["coverage"]["value"] == entry["coverage"]
        assert document["counted"] is False or (step["partner"] or 0) - 1 == entry["reference"]
        assert step["value"] == (entry["value"] if document["counted"] else None)
    assert bool(steps) == (document["reason"] in MEASURED)
    assert len(steps) in (0, len(document["prediction"]))


def similarity(overlap: dict[str, Any]) -> float:
    """Return the IoU of the two listed sets."""
    union = len(overlap["shared"]) + len(overlap["missing"]) + len(overlap["extra"])
    return len(overlap["shared"]) / union if union else 1.0


def object_similarity(document: dict[str, Any], pair: dict[str, Any]) -> float:
    """Return Obj of the phrases of two steps (docs/rules.md, Step semantics)."""
    steps = document["prediction"][pair["predicted"] - 1], document["reference"][pair["reference"] - 1]
    a, b = ({tuple(phrase["words"]) for phrase in step["objects"] if phrase["words"]} for step in steps)
    if not (a and b):
        return 0.0 if a or b else 1.0
    v, w = ({word for words in objects for word in words} for objects in (a, b))
    whole, words = len(a & b) / len(a | b), len(v & w) / len(v | w)
    return max(whole, words) if document["config"]["object_similarity"] == "max" or not whole else whole


def parameter_similarity(document: dict[str, Any], pair: dict[str, Any]) -> float:
    """Return Par of the phrases of two steps, whose terms are those listed if terms are compared."""
    steps = document["prediction"][pair["predicted"] - 1], document["reference"][pair["reference"] - 1]
    if document["config"]["parameter_similarity"] == "words":
        return iou(*(all_words([tuple(phrase["words"]) for phrase in step["parameters"]]) for step in steps))
    sides = [[phrase for phrase in step["parameters"] if phrase["words"]] for step in steps]
    overlap = pair["parameters"]
    for side, name in zip(sides, ("extra", "missing"), strict=True):
        listed = {text for element in overlap["shared"] + overlap[name] for text in element.split(" = ")}
        written = {term for phrase in side for term in phrase["terms"]}
        assert overlap["compared"] != "terms" or written <= listed
        assert [len(phrase["terms"]) for phrase in side] == [len(terms(phrase["text"])) for phrase in side]
    return iou(*(all_terms([phrase["text"] for phrase in side]) for side in sides))


def quantity_errors(document: dict[str, Any]) -> int:
    """Return E from the texts of the matched steps' parameters, and check the quantities that each pair lists."""
    total = 0
    for pair in document["pairs"]:
        steps = document["prediction"][pair["predicted"] - 1], document["reference"][pair["reference"] - 1]
        texts = [[phrase["text"] for phrase in step["parameters"] if phrase["words"]] for step in steps]
        mine, theirs = map(quantities, texts)
        wrong = [Counter(quantity.dimension for quantity in side) for side in (mine - theirs, theirs - mine)]
        errors = (wrong[0] | wrong[1]).total()
        listed = pair["quantities"]
        for name, own, other in (("prediction", mine, wrong[0]), ("reference", theirs, wrong[1])):
            dimensions = Counter(quantity["dimension"] for quantity in listed[name])
            assert dimensions == Counter(quantity.dimension for quantity in own)
            assert Counter(quantity["dimension"] for quantity in listed[name] if quantity["wrong"]) == other
        assert errors == listed["errors"] == len(listed["advice"])
        total += errors
    return total


def content_of(document: dict[str, Any]) -> float:
    config, n, m = document["config"], len(document["prediction"]), len(document["reference"])
    values = []
    for pair in document["pairs"]:
        obj = similarity(pair["objects"])
        assert obj == pair["objects"]["value"] == object_similarity(document, pair)
        value = obj
        if obj >= 0.5:
            par = pair["parameters"]["value"]
            assert similarity(pair["parameters"]) == par == parameter_similarity(document, pair)
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
    scale, factor = scale_of(document), config["quantity_error_factor"]
    score = scale + semantics if config["total"] == "sum" else scale * semantics
    return score if factor == 1 else score * factor ** quantity_errors(document)


def reward_of(document: dict[str, Any]) -> float:
    """Return the reward of what the explanation lists."""
    config = document["config"]
    score = score_of(document) if all(check["passed"] for check in document["checks"]) else 0.0
    largest = document["largest_score"]
    mapped = {"unit": score / largest, "raw": score, "double": 2.0 * score, "shift": score - largest / 2.0}
    return mapped[config["reward_scale"]]


def assert_recomputes(document: dict[str, Any], response: str) -> None:
    """Check that every number of the explanation follows from what it lists, bit for bit."""
    assert reward_of(document) == document["reward"]
    components, config = document["components"], document["config"]
    listed = [step["coverage"] for step in document["prediction"] if step["coverage"] is not None]
    for coverage in listed:
        assert coverage["value"] == coverage["covered"] / coverage["total"]
        assert coverage["total"] == len(coverage["words"])
        assert coverage["uncovered"] == [use["word"] for use in coverage["words"] if not use["covered"]]
    if document["reason"] in MEASURED:
        assert min(coverage["value"] for coverage in listed) == components["coverage"]
    if document["counted"]:
        assert scale_of(document) == components["scale"] == document["scale"]["value"]
        assert order_of(document) == components["order"] == document["order"]["value"]
        assert content_of(document) == components["content"] == document["content"]["value"]
        counted = config["quantity_error_factor"] < 1
        assert components["quantity_errors"] == (quantity_errors(document) if counted else 0)
    reads = config["quantity_error_factor"] < 1 or config["parameter_similarity"] == "quantities"
    assert [pair["quantities"] is not None for pair in document["pairs"]] == [reads] * len(document["pairs"])
    assert_added(document, response)
    rewards = [alternative["reward"] for alternative in document["alternatives"]] or [document["reward"]]
    assert document["alternative"] == next(k for k, reward in enumerate(rewards) if max(rewards) - reward <= 1e-9)
    assert rewards[document["alternative"]] == document["reward"]
    assert_chained(document)


def key_step_of(step: dict[str, Any]) -> KeyStep:
    action, *elements = (tuple(phrase["words"]) for phrase in [step["action"], *step["objects"], *step["parameters"]])
    return KeyStep(str(step["number"]), action, elements, [], [])


def assert_added(document: dict[str, Any], response: str) -> None:
    """Count the numbers and words that only the prose has, and compare them with those of the explanation."""
    config, place = document["config"], document["sections"]["orc"]
    most_numbers, most_words = config["max_added_numbers"], config["max_added_words"]
    if place is None and document["prose"]:  # the section does not end
        return
    prose = orc_steps(response[slice(*place["characters"])]) if place else []
    total, most, negations = 0, 0, 0
    for k, listed in enumerate(document["prose"]):
        step = document["prediction"][k] if k < len(document["prediction"]) else None
        names = ("added_numbers", "added_words", "negations")
        if step is None or step["action"] is None:
            assert ([listed[name] for name in names], listed["added_marks"]) == ([None] * 3, [])
            continue
        key = key_step_of(step)
        numbers = added_numbers(key, prose[k], len(document["prediction"]))
        said = added_words(key, prose[k])
        assert same(listed["added_numbers"], None if most_numbers is None else numbers)
        assert same(listed["added_words"], None if most_words is None else said)
        assert same(listed["negations"], None if most_words is None else said & NEGATIONS)
        marked = {word for mark in listed["added_marks"] for word in mark["words"]}
        assert marked <= {*(listed["added_numbers"] or ()), *(listed["added_words"] or ())}
        total, most, negations = total + len(numbers), max(most, len(said)), negations + len(said & NEGATIONS)
    assert document["added_numbers"] == (None if most_numbers is None else total)
    assert document["added_words"] == (None if most_words is None else most)
    if most_numbers is not None and document["reason"] in ("ok", "added_numbers", "added_words"):
        assert (total > most_numbers) == (document["reason"] == "added_numbers")
    if most_words is not None and document["reason"] in ("ok", "added_words"):
        assert (most > most_words or negations > 0) == (document["reason"] == "added_words")


def same(listed: list[str] | None, expected: set[str] | None) -> bool:
    """Return whether a list has each of the expected words once."""
    return listed is None if expected is None else listed is not None and sorted(listed) == sorted(expected)


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

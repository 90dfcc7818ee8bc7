"""Explanations that would be too long: what is left out is counted, and what remains is as it was."""

from __future__ import annotations

import json

import pytest

from assay import Scorer
from assay.service.explain.explanation import explain
from assay.service.explain.schema import shortened
from tests.http.samples import PERFECT, REFERENCE, SWAPPED

WORDS = " ".join(f"w{k}" for k in range(200))
STEP = f'Step 1: {{"action": "a", "objects": [], "parameters": ["{WORDS}"]}}'
RESPONSE = f"<think></think><key>{STEP}</key><orc>Step 1: a {WORDS} {WORDS}</orc><note></note>"
OTHER = STEP.replace("w1 ", "v1 ")


@pytest.fixture(scope="module")
def explanation():
    return explain(Scorer(threads=1), RESPONSE, OTHER)


def test_what_fits_is_whole(explanation):
    text = shortened(explanation, 1 << 20)
    assert text == explanation.model_dump_json().encode()
    assert json.loads(text)["left_out"] == {}


@pytest.mark.parametrize("share", [0.9, 0.5, 0.3])
def test_what_is_left_out_is_counted(explanation, share):
    whole = explanation.model_dump()
    text = shortened(explanation, int(share * len(explanation.model_dump_json())))
    assert text is not None
    short = json.loads(text)
    assert len(text) <= share * len(explanation.model_dump_json())
    left_out = short["left_out"]
    assert sum(left_out.values()) > 0
    marks = [len(document["prose"][0]["marks"]) for document in (whole, short)]
    assert marks[0] - marks[1] == left_out.get("marks", 0)
    assert sum(suggestion["response"] is not None for suggestion in whole["suggestions"]) == left_out["response"]
    assert short["reward"] == whole["reward"]
    assert short["prediction"][0]["text"] == whole["prediction"][0]["text"]
    assert explanation.model_dump() == whole  # the explanation itself is unchanged


def test_an_explanation_that_stays_too_long(explanation):
    assert shortened(explanation, 1_000) is None


def test_usual_explanations_are_whole():
    """With room for 256 KiB they never lack anything."""
    text = shortened(explain(Scorer(threads=1), SWAPPED, REFERENCE, 20), 1 << 18)
    assert text is not None
    assert json.loads(text)["left_out"] == {}
    assert shortened(explain(Scorer(threads=1), PERFECT, REFERENCE, 20), 1 << 18)

"""POST /v1/score: replies to valid requests."""

from __future__ import annotations

import json

import numpy as np
import pytest

from assay import ScoreSettings
from assay.kernels.score import COMPONENTS
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, SWAPPED, scored

WAIT = 'Step 1: {"action": "wait", "objects": [], "parameters": []}'


def test_columns_only_if_they_are_included(client):
    reply = scored(client, REQUEST)
    assert list(reply) == ["rewards", "reasons", "config_id", "signature"]
    assert reply["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert reply["reasons"] == ["ok", "ok", "missing_sections"]
    assert (reply["config_id"], reply["signature"]) == (ScoreSettings().config_id, ScoreSettings().signature)
    every = scored(client, REQUEST | {"include": ["advantages", "components"], "task": "score"})
    assert list(every) == ["rewards", "reasons", "components", "advantages", "config_id", "signature"]
    assert reply.items() <= every.items()
    assert list(every["components"]) == list(COMPONENTS)
    assert every["components"]["score"] == pytest.approx([2.5 * reward for reward in REWARDS], abs=1e-12)
    rewards = np.array(every["rewards"])
    assert every["advantages"] == pytest.approx((rewards - rewards.mean()) / rewards.std(ddof=1), abs=1e-12)


def test_the_index_is_optional_with_as_many_references_as_responses(client):
    request = {"references": [WAIT, REFERENCE], "responses": [PERFECT, PERFECT]}
    assert scored(client, request)["rewards"] == [0.0, 1.0]
    assert scored(client, request | {"reference_index": [1, 0]})["rewards"] == [1.0, 0.0]


def test_empty_batch(client):
    for references in ([REFERENCE], []):
        request = {"references": references, "responses": [], "include": ["components", "advantages"]}
        reply = scored(client, request)
        assert reply["rewards"] == reply["reasons"] == reply["advantages"] == []
        assert reply["components"] == {name: [] for name in COMPONENTS}


def test_minus_zero_is_zero(client):
    ids = [scored(client, REQUEST | {"config": {"min_coverage": zero}})["config_id"] for zero in (0, 0.0, -0.0)]
    explained = {"response": "", "reference": REFERENCE, "config": {"min_coverage": -0.0}}
    ids.append(client.post("/v1/explain", json=explained).json()["config_id"])
    assert set(ids) == {ScoreSettings(min_coverage=0.0).config_id}


def test_the_last_of_duplicate_names_wins(client):
    body = json.dumps(REQUEST)[:-1] + ', "responses": []}'
    assert client.post("/v1/score", content=body).json()["rewards"] == []


def test_a_response_of_any_content_is_a_result(client):
    for response in ("", "\x00", "\ufeff", "\U0010ffff" * 100, "[" * 100_000, "x" * 262_144, "x" * 262_145):
        reply = scored(client, {"references": [REFERENCE], "responses": [PERFECT, response, SWAPPED]})
        assert reply["rewards"] == pytest.approx([REWARDS[0], 0.0, REWARDS[1]], abs=1e-12)
        assert (reply["reasons"][1] == "too_long") == (len(response) > 262_144)

"""POST /v1/score: replies to valid requests."""

from __future__ import annotations

import json
import math

import httpx
import numpy as np
import pytest

from assay import Scorer, ScoreSettings
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, STEPS, SWAPPED

COMPONENTS = [
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
]


def scored(client: httpx.Client, request: dict) -> dict:
    reply = client.post("/v1/score", json=request)
    assert reply.status_code == 200, reply.text[:500]
    assert reply.headers["content-type"] == "application/json"
    return reply.json()


def test_rewards_and_reasons(client):
    reply = scored(client, REQUEST)
    assert list(reply) == ["rewards", "reasons", "config_id", "signature"]
    assert reply["rewards"] == pytest.approx(REWARDS, abs=1e-12)
    assert reply["reasons"] == ["ok", "ok", "missing_sections"]
    assert reply["config_id"] == ScoreSettings().config_id
    assert reply["signature"] == ScoreSettings().signature


def test_components_and_advantages_only_when_included(client):
    reply = scored(client, REQUEST | {"include": ["advantages", "components"]})
    assert list(reply) == ["rewards", "reasons", "components", "advantages", "config_id", "signature"]
    assert list(reply["components"]) == COMPONENTS
    assert all(len(column) == 3 for column in reply["components"].values())
    assert reply["components"]["score"] == pytest.approx([2.5 * reward for reward in REWARDS], abs=1e-12)
    rewards = np.array(reply["rewards"])
    assert reply["advantages"] == pytest.approx((rewards - rewards.mean()) / rewards.std(ddof=1), abs=1e-12)


@pytest.mark.parametrize("reference", [REFERENCE, PERFECT, STEPS], ids=["key lines", "whole answer", "steps"])
def test_forms_of_a_reference(client, reference):
    assert scored(client, REQUEST | {"references": [reference]})["rewards"] == pytest.approx(REWARDS, abs=1e-12)


def test_index_names_the_reference_of_each_response(client):
    other = 'Step 1: {"action": "wait", "objects": [], "parameters": []}'
    request = {"references": [other, REFERENCE], "responses": [PERFECT, PERFECT], "reference_index": [1, 0]}
    assert scored(client, request)["rewards"] == [1.0, 0.0]


def test_the_index_is_optional_with_as_many_references_as_responses(client):
    other = 'Step 1: {"action": "wait", "objects": [], "parameters": []}'
    assert scored(client, {"references": [REFERENCE, other], "responses": [PERFECT, PERFECT]})["rewards"] == [1.0, 0.0]


@pytest.mark.parametrize("references", [[], [REFERENCE]])
@pytest.mark.parametrize("index", [None, []])
def test_empty_batch(client, references, index):
    request = {"references": references, "responses": [], "include": ["components", "advantages"]}
    reply = scored(client, request if index is None else request | {"reference_index": index})
    assert reply["rewards"] == reply["reasons"] == reply["advantages"] == []
    assert reply["components"] == {name: [] for name in COMPONENTS}


def test_config_overrides_the_defaults_for_one_request(client):
    reply = scored(client, REQUEST | {"config": {"reward_scale": "raw", "order": "lcs"}})
    assert reply["rewards"][0] == 2.5
    assert reply["rewards"][1] == pytest.approx(2.5 * REWARDS[1] + 0.5, abs=1e-12)
    assert reply["config_id"] == ScoreSettings(reward_scale="raw", order="lcs").config_id
    assert reply["signature"] == ScoreSettings(reward_scale="raw", order="lcs").signature
    assert scored(client, REQUEST)["config_id"] == ScoreSettings().config_id


def test_minus_zero_is_zero(client):
    ids = [scored(client, REQUEST | {"config": {"min_coverage": zero}})["config_id"] for zero in (0, 0.0, -0.0)]
    assert set(ids) == {ScoreSettings(min_coverage=0.0).config_id}
    explained = client.post(
        "/v1/explain", json={"response": "", "reference": REFERENCE, "config": {"min_coverage": -0.0}}
    )
    assert explained.json()["config_id"] == ids[0]


def test_task_score_is_the_default(client):
    assert scored(client, REQUEST | {"task": "score"}) == scored(client, REQUEST)


def test_the_last_of_duplicate_names_wins(client):
    body = json.dumps(REQUEST)[:-1] + ', "responses": []}'
    assert client.post("/v1/score", content=body).json()["rewards"] == []


def test_a_response_of_a_megabyte_is_a_result(client):
    reply = scored(client, {"references": [REFERENCE], "responses": [PERFECT, "x" * 1_000_000, SWAPPED]})
    assert reply["rewards"] == pytest.approx([REWARDS[0], 0.0, REWARDS[1]], abs=1e-12)
    assert reply["reasons"] == ["ok", "too_long", "ok"]


@pytest.mark.parametrize(
    "response",
    ["", "\x00", "\ufeff", "😀" * 100, "<think>" * 5000, "</note>", '"\\', "\r\n\t", "\U0010ffff", "[" * 100_000],
    ids=["empty", "nul", "bom", "astral", "tags", "end", "escapes", "space", "last", "nested"],
)
def test_a_response_of_any_content_is_a_result(client, response):
    reply = scored(client, {"references": [REFERENCE], "responses": [PERFECT, response, SWAPPED]})
    assert reply["rewards"] == pytest.approx([REWARDS[0], 0.0, REWARDS[1]], abs=1e-12)


@pytest.mark.parametrize("trailing", ["/v1/score/", "/v1/score"])
def test_a_trailing_slash_is_ignored(client, trailing):
    reply = client.post(trailing, json=REQUEST, follow_redirects=False)
    assert reply.status_code == 200


@pytest.mark.parametrize("seed", [0, 1])
def test_same_bits_as_in_process(client, rollout_request, seed):
    request = rollout_request(24, 5, seed) | {"include": ["components", "advantages"]}
    reply = scored(client, request)
    scores = Scorer().score(request["responses"], request["references"], request["reference_index"])
    assert reply["rewards"] == scores.rewards.tolist()
    assert reply["reasons"] == scores.reasons.tolist()
    assert reply["components"] == {name: column.tolist() for name, column in scores.components.items()}
    assert reply["advantages"] == scores.advantages().tolist()
    assert len(set(reply["reasons"])) > 3
    assert all(math.isfinite(value) for column in reply["components"].values() for value in column)


def test_single_requests_agree_with_the_batch(client, rollout_request):
    request = rollout_request(6, 4, seed=7)
    batch = scored(client, request)
    for k, (response, index) in enumerate(zip(request["responses"], request["reference_index"], strict=True)):
        single = scored(client, {"references": [request["references"][index]], "responses": [response]})
        assert single["rewards"] == [batch["rewards"][k]]
        assert single["reasons"] == [batch["reasons"][k]]

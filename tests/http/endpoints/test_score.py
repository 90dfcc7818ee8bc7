"""POST /v1/score: replies to valid requests, and `configs`: the results of as many requests with `config`."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assay import ScoreSettings
from assay.kernels.score import COMPONENTS
from tests.http.samples import (
    PERFECT,
    REFERENCE,
    REQUEST,
    REWARDS,
    SWAPPED,
    errors_of,
    problem_of,
    scored,
    with_places,
)
from tests.servers import serving
from tests.strategies import batches, examples, settings


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


def test_empty_batch(client):
    for references in ([REFERENCE], []):
        request = {"references": references, "responses": [], "include": ["components", "advantages"]}
        reply = scored(client, request)
        assert reply["rewards"] == reply["reasons"] == reply["advantages"] == []
        assert reply["components"] == {name: [] for name in COMPONENTS}


def test_a_response_of_any_content_is_a_result(client):
    for response in ("", "\x00", "\ufeff", "\U0010ffff" * 100, "[" * 100_000, "x" * 262_144, "x" * 262_145):
        reply = scored(client, {"references": [REFERENCE], "responses": [PERFECT, response, SWAPPED]})
        assert reply["rewards"] == pytest.approx([REWARDS[0], 0.0, REWARDS[1]], abs=1e-12)
        assert (reply["reasons"][1] == "too_long") == (len(response) > 262_144)


TABLE_21: list[dict[str, Any]] = [
    dict(zip(("order", "semantics", "total"), values, strict=True))
    for values in product(("strict", "lcs"), ("sum", "product"), ("product", "sum"))
]
BOTH = ["components", "advantages"]


def separate(client: httpx.Client, request: dict[str, Any], configs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [scored(client, request | {"config": config}) for config in configs]


@pytest.mark.parametrize("include", [[], BOTH], ids=["rewards", "all columns"])
def test_each_equals_a_request_of_its_own(client, rollout_request, include):
    """Each overrides the configuration of the service, not that of `config`."""
    request = rollout_request(40, 4) | {"include": include}
    both = request | {"config": {"reward_scale": "raw"}, "configs": [*TABLE_21, {}]}
    reply = scored(client, both)
    assert list(reply) == ["rewards", "reasons", *include, "config_id", "signature", "configs"]
    assert reply.pop("configs") == separate(client, request, [*TABLE_21, {}])
    assert reply == scored(client, request | {"config": {"reward_scale": "raw"}})


@given(batches(alternatives=True), st.lists(settings, min_size=1, max_size=4))
@examples(15)
def test_any_configurations(client, columns, configs):
    configs = [config | {"max_steps": 1024} for config in configs]
    request = dict(zip(("responses", "references", "reference_index"), columns, strict=True))
    request["include"] = ["components", "steps"]
    answer = client.post("/v1/score", json=request | {"configs": configs})
    assume(answer.status_code != 413)  # the work on long texts is limited
    assert answer.status_code == 200, answer.text[:500]
    reply = answer.json()
    assert [with_places(each, reply) for each in reply["configs"]] == separate(client, request, configs)


def test_steps_that_configurations_share_are_sent_once(client):
    configs = [{"order": "lcs"}, {"think_prefilled": True}]
    reply = scored(client, REQUEST | {"include": ["steps"], "configs": configs})
    whole = [set(step) for row in reply["steps"] for step in row]
    shared, apart = ([set(step) for row in each["steps"] for step in row] for each in reply["configs"])
    assert whole == apart == [{"start", "end", "orc_start", "orc_end", "coverage", "reference", "value"}] * 4
    assert shared == [{"reference", "value"}] * 4


def test_options_of_rules_4_side_by_side(client):
    """A wrong dose, a negation, and a word inside another one: each has its steps, whatever gate it fails."""
    responses = [PERFECT.replace("5 ml", "500 ml"), PERFECT.replace("Spin the", "Never spin the")]
    responses.append(PERFECT.replace("Spin the tube", "Spin the microtube"))
    configs = [{}, {"quantity_error_factor": 0.5}, {"coverage": "words"}, {"max_added_words": 2}]
    request = {"references": [REFERENCE], "responses": responses, "include": ["components", "steps"]}
    plain, halved, by_words, few = scored(client, request | {"configs": configs})["configs"]
    assert plain["reasons"] == halved["reasons"] == ["ok"] * 3
    assert by_words["reasons"] == ["ok", "ok", "low_coverage"]
    assert few["reasons"] == ["ok", "added_words", "ok"]
    assert plain["rewards"][1:] == halved["rewards"][1:] == [1.0, 1.0]
    assert halved["rewards"][0] == plain["rewards"][0] / 2 > 0.4
    errors = [reply["components"]["quantity_errors"] for reply in (plain, halved, by_words, few)]
    assert errors == [[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert [len(steps) for reply in (plain, by_words, few) for steps in reply["steps"]] == [2] * 9
    assert [step["coverage"] for step in by_words["steps"][2]] == [1.0, 0.5]


WRONG: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "settings": (
        {"config": {"ordr": 1}, "configs": [{"order": "x"}, {}, {"ordr": 1, "max_steps": 9999}, 5]},
        [
            *(("config.ordr", "unknown_setting"), ("configs[0].order", "invalid_setting")),
            *(("configs[2].ordr", "unknown_setting"), ("configs[2].max_steps", "over_limit")),
            ("configs[3]", "wrong_type"),
        ],
    ),
    "settings of rules 4": (
        {
            "config": {"quantity_error_factor": 0, "max_added_words": -1, "coverage": "word"},
            "configs": [{"quantity_error_factor": 1.5}, {"quantity_error_factor": "x", "max_added_words": "none"}],
        },
        [
            *(
                (f"config.{name}", "invalid_setting")
                for name in ("coverage", "quantity_error_factor", "max_added_words")
            ),
            ("configs[0].quantity_error_factor", "invalid_setting"),
            *((f"configs[1].{name}", "invalid_setting") for name in ("quantity_error_factor", "max_added_words")),
        ],
    ),
    "none": ({"configs": []}, [("configs", "too_few")]),
    "too many": ({"configs": [{}] * 65}, [("configs", "too_many")]),
    "too many settings": ({"configs": [{str(k): 0 for k in range(255)}, *[{"a": 1}] * 2]}, [("configs", "too_many")]),
    "references that every configuration refuses": (
        {
            "configs": [{}, {"max_steps": 1}],
            "references": ["\n".join([REFERENCE] * 513), "no", REFERENCE],
            "reference_index": [0, 1, 2],
        },
        [("references[0]", "too_long"), ("references[1]", "bad_step_line")],
    ),
    "no group": (
        {"configs": [{}], "include": BOTH, "references": [REFERENCE] * 3, "reference_index": [0, 1, 2]},
        [("include", "no_group")],
    ),
    "references of another task": (
        {"task": "bioprobench.ord", "references": ["x" * 300_000, "no"], "reference_index": [0, 1, 1]},
        [("references[0]", "too_long"), ("references[1]", "bad_reference")],
    ),
    "another task": ({"task": "lexical", "configs": [{}], "references": ["Add."]}, [("configs", "unknown_field")]),
}


@pytest.mark.parametrize(("changed", "errors"), WRONG.values(), ids=WRONG.keys())
def test_every_error_is_named(client, changed, errors):
    document = problem_of(client.post("/v1/score", json=REQUEST | changed), 422)
    assert errors_of(document) == errors
    refused = [error["detail"] for error in document["errors"] if error["reason"] == "too_long"]
    assert refused in ([], ["it has more than 262144 bytes"], ["it has more than 1024 steps"])


def test_as_many_settings_and_configurations_as_a_request_may_have(client):
    configs = [{f"use_lenght{k}_{j}": 0 for j in range(4)} for k in range(64)]
    document = problem_of(client.post("/v1/score", json=REQUEST | {"configs": configs}), 422)
    assert document["error_count"] == 256
    assert "did you mean use_length?" in document["errors"][0]["detail"]


@pytest.fixture(scope="module")
def small():
    """Serve an application with small limits."""
    with serving(max_responses=12, max_body_bytes=20_000) as client:
        yield client


def test_a_response_counts_once_for_each_configuration(small):
    assert len(scored(small, REQUEST | {"configs": [{}, {"order": "lcs"}] * 2})["configs"]) == 4
    document = problem_of(small.post("/v1/score", json=REQUEST | {"configs": [{}] * 5}), 413)
    assert errors_of(document) == [("configs", "too_many")]
    counted = re.findall(r'assay_responses_total{.*reason="ok".*} (.*)', small.get("/metrics").text)
    assert [float(count) for count in counted] == [2.0]


def test_a_response_counts_once_for_each_alternative(small):
    """The limit is 12; alternatives of references that no response has count as references."""
    three, six = {"any_of": [REFERENCE] * 3}, {"any_of": [REFERENCE] * 6}
    assert scored(small, {"references": [three], "responses": [SWAPPED] * 4})["reasons"] == ["ok"] * 4
    for request in (
        {"references": [three], "responses": [SWAPPED] * 5},
        {"references": [three], "responses": [SWAPPED] * 3, "configs": [{}, {}]},
        {"references": [three, six], "responses": [SWAPPED] * 3, "reference_index": [0, 1, 1]},
        {"references": [six, six, REFERENCE], "responses": [SWAPPED], "reference_index": [2]},
    ):
        document = problem_of(small.post("/v1/score", json=request), 413)
        assert errors_of(document) == [("references", "too_many")]


def test_texts_count_once_for_each_reading(small):
    prefilled, shorter = {"think_prefilled": True}, {"max_response_bytes": 10_000}
    request = {"references": [REFERENCE], "responses": [SWAPPED + " " * 7_000]}
    for configs in ([{}] * 9, [prefilled]):
        assert len(scored(small, request | {"configs": configs})["configs"]) == len(configs)
    document = problem_of(small.post("/v1/score", json=request | {"configs": [prefilled, {}, shorter]}), 413)
    assert errors_of(document) == [("configs", "too_many")]
    assert "3 times" in document["errors"][0]["detail"]


def test_fields_of_json_in_the_query(client):
    query = {"config": '{"order":"lcs"}', "include": "advantages", "task": "score"}
    fields = {"config": {"order": "lcs"}, "include": ["advantages"], "task": "score"}
    assert scored(client, REQUEST, params=query) == scored(client, REQUEST | fields)


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        ("config=[]&include=all", [("query.include", "unknown_column"), ("query.config", "wrong_type")]),
        ("task=score&task=score", [("query.task", "repeated_setting")]),
        (
            "task=lexical&config={%22order%22:1}&include=",
            [("query.config", "repeated_setting"), ("query.task", "repeated_setting")],
        ),
    ],
)
def test_wrong_fields_in_the_query(client, query, errors):
    body = REQUEST | ({"task": "score", "config": {}} if "lexical" in query else {})
    assert errors_of(problem_of(client.post(f"/v1/score?{query}", json=body), 422)) == errors


@pytest.mark.parametrize("path", ["/v1/explain", "/v1/evaluate"])
def test_other_requests_take_no_query(client, path):
    assert errors_of(problem_of(client.post(f"{path}?task=score", json={}), 422)) == [("query", "unknown_field")]

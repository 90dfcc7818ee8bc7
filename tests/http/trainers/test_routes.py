"""Common to all trainers' routes: rollouts, settings in the URL, keys, errors, and descriptions; and all of slime's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assay import ScoreSettings
from assay.kernels.rules import REASONS
from assay.service.http.app import create_app
from assay.service.http.endpoints.trainers import contract
from assay.service.http.endpoints.trainers.contract import EXAMPLES
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import (
    EOS,
    LABEL_PATHS,
    OPENRLHF,
    PATHS,
    ROLLOUTS,
    SLIME,
    Rollout,
    body_of,
    expected_of,
    numbers_in,
    openrlhf,
)
from tests.servers import serving

BODIES = {path: body_of(path, SWAPPED + EOS, REFERENCE) for path in PATHS}
every_reward = pytest.mark.parametrize("path", PATHS)


@every_reward
@pytest.mark.parametrize("ballast", [0, 100_000])
def test_one_rollout_a_call(client, path, ballast):
    """On the event loop, and too long for it."""
    for rollout, expected in zip(ROLLOUTS, expected_of(ROLLOUTS), strict=True):
        body = body_of(path, *rollout, ballast=["x" * ballast])
        for ensure_ascii in (True, False):  # as aiohttp and httpx encode it
            content = json.dumps(body, ensure_ascii=ensure_ascii).encode()
            assert numbers_in(client.post(path, content=content)) == expected
        if path == SLIME:
            bare = client.post(f"{path}?format=float", json=body)
            assert bare.headers["content-type"] == "application/json"
            assert type(bare.json()) is float
            assert bare.json() == expected["reward"]


@every_reward
@pytest.mark.parametrize("ballast", [0, 100_000])
def test_alternatives(client, path, ballast):
    """The best counts; what is wrong with one is reported at its place."""
    other = REFERENCE.replace("add", "wash")
    rollouts = [
        Rollout(SWAPPED + EOS, {"any_of": alternatives})
        for alternatives in ([other, STEPS], [REFERENCE], [STEPS, other])
    ]
    for rollout, expected in zip(rollouts, expected_of(rollouts), strict=True):
        reply = client.post(path, json=body_of(path, *rollout, ballast=["x" * ballast]))
        assert numbers_in(reply) == expected
        assert expected["reward"] > 0
    nested = {"any_of": [REFERENCE]}
    for any_of, errors in (
        ([], {"": "no_alternatives"}),
        ([REFERENCE] * 17, {"": "too_many"}),
        ([REFERENCE, "x", None, nested], {1: "bad_step_line", 2: "wrong_type", 3: "bad_step_schema"}),
    ):
        document = problem_of(client.post(path, json=body_of(path, SWAPPED, {"any_of": any_of})), 422)
        places = {k: f"{LABEL_PATHS[path]}.any_of[{k}]" if k else LABEL_PATHS[path] for k in errors}
        assert errors_of(document) == [(places[k], reason) for k, reason in errors.items()]


@every_reward
def test_a_wrong_reference_is_an_error(client, path):
    for reference, reason in (("no step", "bad_step_line"), (None, "wrong_type"), (7, "wrong_type")):
        document = problem_of(client.post(path, json=body_of(path, PERFECT, reference)), 422)
        assert errors_of(document) == [(LABEL_PATHS[path], reason)]


SETTINGS = [
    {"position_decay": "0.5", "use_length": "false", "max_mean_words": "1.0", "length_penalty": "relative"},
    {"max_steps": "2", "advantage_ddof": "0", "object_similarity": "max", "use_order": "0"},
    {"coverage": "words", "quantity_error_factor": "0.5", "max_added_words": "2"},
]


@every_reward
@pytest.mark.parametrize("given", SETTINGS, ids=["&".join(setting) for setting in SETTINGS])
def test_settings_in_the_query(client, path, given):
    settings = ScoreSettings.model_validate_strings(given).model_dump()
    expected = expected_of([Rollout(SWAPPED + EOS, REFERENCE)], **settings)
    for _ in range(2):
        assert [numbers_in(client.post(path, params=given, json=BODIES[path]))] == expected


@pytest.mark.parametrize(("setting", "code"), [("max_added_numbers", 12), ("max_added_words", 13)])
def test_none_in_the_query_is_null(setting, code):
    """It lifts the limit of the service."""
    rollout = Rollout(PERFECT.replace("\n</orc>", " Repeat 7.\n</orc>"), REFERENCE)
    codes = {name: expected_of([rollout], **{setting: k})[0] for name, k in (("", 0), ("none", None), ("1", 1))}
    assert [numbers["score_reason_code"] for numbers in codes.values()] == [code, 0, 0]
    assert [numbers[f"score_reason_{REASONS[code]}"] for numbers in codes.values()] == [1, 0, 0]
    with serving(**{setting: 0}) as client:
        for path in PATHS:
            body = body_of(path, *rollout)
            for name, numbers in codes.items():
                query = f"?{setting}={name}" if name else ""
                assert numbers_in(client.post(path + query, json=body)) == numbers
            document = problem_of(client.post(f"{path}?{setting}=null", json=body), 422)
            assert errors_of(document) == [(f"query.{setting}", "invalid_setting")]


@every_reward
def test_every_invalid_setting_is_reported(client, path):
    for query, errors in (
        (
            "order=lc&min_coverage=7&min_coverage=8&use_order=perhaps&ordr=lcs",
            {
                *(("ordr", "unknown_setting"), ("order", "invalid_setting"), ("min_coverage", "invalid_setting")),
                *(("min_coverage", "repeated_setting"), ("use_order", "invalid_setting")),
            },
        ),
        ("max_steps=1025", {("max_steps", "over_limit")}),
        (
            "quantity_error_factor=0&coverage=perhaps&max_added_words=-1",
            {(name, "invalid_setting") for name in ("quantity_error_factor", "coverage", "max_added_words")},
        ),
        ("quantity_error_factor=none", {("quantity_error_factor", "invalid_setting")}),
    ):
        document = problem_of(client.post(f"{path}?{query}", json=BODIES[path]), 422)
        assert {(name.removeprefix("query."), reason) for name, reason in errors_of(document)} == errors
        assert "perhaps" not in str(document)


@pytest.mark.parametrize(
    ("path", "query", "errors"),
    [
        (OPENRLHF, "format=float", [("query.format", "unknown_setting")]),
        (SLIME, "format=list&order=lc", [("query.format", "invalid_setting"), ("query.order", "invalid_setting")]),
        (OPENRLHF, "on_bad_reference=mask", [("query.on_bad_reference", "unknown_setting")]),
    ],
)
def test_options_belong_to_their_route(client, path, query, errors):
    assert errors_of(problem_of(client.post(f"{path}?{query}", json=BODIES[path]), 422)) == errors


@every_reward
@pytest.mark.parametrize("query", ["order", "=", "order=%ff", "\xe9=1"])
def test_an_unreadable_query(client, path, query):
    reply = client.post(f"{path}?{query}", json=BODIES[path])
    assert problem_of(reply, 422)["errors"][0]["path"].startswith("query")


@every_reward
def test_more_queries_than_are_cached(client, path):
    """Each with a different coverage threshold, in two rounds."""
    expected = [expected_of([Rollout(SWAPPED + EOS, REFERENCE)], order=order) for order in ("strict", "lcs")]
    for _ in range(2):
        for k in range(70):
            query = f"&&min_coverage=0.{k:04}&&&order={('strict', 'lcs')[k % 2]}&"
            assert [numbers_in(client.post(f"{path}?{query}", json=BODIES[path]))] == expected[k % 2]


@every_reward
def test_texts_over_the_limit(client, path):
    """A reference is an error; a response has a reward."""
    many = "\n".join(f'Step {k}: {{"action": "a", "objects": [], "parameters": []}}' for k in range(1, 1026))
    for label in (REFERENCE + " " * 262_144, many):
        document = problem_of(client.post(path, json=body_of(path, SWAPPED, label)), 422)
        assert errors_of(document) == [(LABEL_PATHS[path], "too_long")]
    numbers = numbers_in(client.post(path, json=body_of(path, PERFECT + " " * 262_144, REFERENCE)))
    assert (numbers["reward"], numbers["score_reason_code"]) == (0.0, 1.0)


def test_too_many_rollouts():
    with serving(max_responses=3) as client:
        for rows, status in ((3, 200), (4, 413)):
            document = openrlhf([SWAPPED] * rows, [REFERENCE] * rows)
            assert client.post(OPENRLHF, json=document).status_code == status
        reply = client.post(OPENRLHF, json={"query": ["x"], "prompts": ["x"] * 5, "labels": []})
        assert errors_of(problem_of(reply, 413)) == [("prompts", "too_many")]


def test_trainers_are_patient_by_route():
    (middleware,) = create_app().user_middleware
    routes: Any = middleware.kwargs["routes"]
    patience = {path: routes[path, "POST"].max_queue_seconds for path in (*EXAMPLES, "/v1/score")}
    gym = {path: 600.0 for path in EXAMPLES if path.startswith("/compat/nemo-gym")}
    others = {"/compat/roll/submit": 18.0, "/compat/eval-protocol/evaluate": None, "/v1/score": None}
    assert patience == {OPENRLHF: 170.0, SLIME: 110.0, **gym, **others}


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_are_right(client, path):
    operation = client.get("/openapi.json").json()["paths"][path]["post"]
    request = operation["requestBody"]["content"]["application/json"]
    reply = operation["responses"]["200"]["content"]["application/json"]
    assert (request["example"], reply["example"]) == EXAMPLES[path]
    assert client.post(path, json=request["example"]).json() == reply["example"]
    for schema, example in (
        (request["schema"], request["example"]),
        (reply["schema"].get("anyOf", [reply["schema"]])[0], reply["example"]),
    ):
        getattr(contract, schema["$ref"].rpartition("/")[2]).model_validate(example)

"""Common to all trainers' routes: settings in the URL, keys, slashes, errors, and descriptions."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import httpx
import pytest

from assay import ScoreSettings
from assay.service.http.app import create_app
from assay.service.http.endpoints.trainers import contract
from assay.service.http.endpoints.trainers.contract import EXAMPLES
from tests.http.samples import PERFECT, REFERENCE, SWAPPED, errors_of, problem_of
from tests.http.trainers.trainer_bytes import EOS, PROMPT, Rollout, by_aiohttp, expected_of, post
from tests.servers import launched

GYM = "/compat/nemo-gym"
SCORING = {
    "/compat/openrlhf": lambda text, label: {"query": [PROMPT + text], "prompts": [PROMPT], "labels": [label]},
    "/compat/slime": lambda text, label: {"prompt": PROMPT, "response": text, "label": label},
    f"{GYM}/verify": lambda text, label: {
        "responses_create_params": {"input": PROMPT},
        "response": {"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]},
        "reference": label,
    },
}
OTHERS = {
    f"{GYM}/seed_session": {"reference": REFERENCE},
    f"{GYM}/close_session": {"resources_session_id": "s"},
    f"{GYM}/aggregate_metrics": {"verify_responses": []},
}
PATHS = [*SCORING, *OTHERS]
LABEL_PATHS = {"/compat/openrlhf": "labels[0]", "/compat/slime": "label", f"{GYM}/verify": "reference"}


def body_of(path: str, text: str = SWAPPED + EOS, label: Any = REFERENCE) -> bytes:
    return by_aiohttp(SCORING[path](text, label) if path in SCORING else OTHERS[path])


def reward_of(reply: httpx.Response) -> float:
    assert reply.status_code == 200, reply.text
    document = reply.json()
    return document["rewards"][0] if "rewards" in document else document["reward"]


@pytest.fixture(params=SCORING)
def path(request: pytest.FixtureRequest) -> str:
    return request.param


SETTINGS = [
    {"order": "lcs"},
    {"semantics": "product", "total": "sum", "reward_scale": "shift"},
    {"position_decay": "0.5", "use_length": "false", "max_mean_words": "1.0", "length_penalty": "relative"},
    {"object_similarity": "max", "position_decay": "3"},
    {"max_steps": "2", "advantage_ddof": "0"},
    {"max_response_bytes": "100"},
    {"min_coverage": "1", "use_order": "0"},
]


@pytest.mark.parametrize("given", SETTINGS, ids=["&".join(one) for one in SETTINGS])
def test_settings_in_the_query(client, path, given):
    settings = ScoreSettings.model_validate_strings(given).model_dump()
    (expected,) = expected_of([Rollout(SWAPPED + EOS, REFERENCE)], **settings)
    for _ in range(2):
        reply = client.post(path, params=given, content=body_of(path))
        assert reward_of(reply) == expected["reward"]


def test_a_prompt_that_opens_the_think_section(client, path):
    text = PERFECT.removeprefix("<think>")
    assert reward_of(client.post(f"{path}?think_prefilled=true", content=body_of(path, text))) == 1.0
    assert reward_of(client.post(path, content=body_of(path, text))) == 0.0


def test_every_invalid_setting_is_reported(client, path):
    query = "ordr=lcs&order=lc&min_coverage=7&min_coverage=8&use_order=perhaps&max_steps=1.5&think_prefilled="
    document = problem_of(client.post(f"{path}?{query}", content=body_of(path)), 422)
    assert set(errors_of(document)) == {
        ("query.ordr", "unknown_setting"),
        ("query.order", "invalid_setting"),
        ("query.min_coverage", "invalid_setting"),
        ("query.min_coverage", "repeated_setting"),
        ("query.use_order", "invalid_setting"),
        ("query.max_steps", "invalid_setting"),
        ("query.think_prefilled", "invalid_setting"),
    }
    assert "perhaps" not in str(document)


def test_no_query_raises_a_limit(client, path):
    query = "max_steps=1025&max_response_bytes=10000000000"
    document = problem_of(client.post(f"{path}?{query}", content=body_of(path)), 422)
    assert errors_of(document) == [("query.max_response_bytes", "over_limit"), ("query.max_steps", "over_limit")]
    assert "1024" in document["errors"][1]["detail"]


@pytest.mark.parametrize("query", ["order", "=", "order=%ff", "order=lcs&&=&x", "\xe9=1"])
def test_an_unreadable_query(client, path, query):
    reply = client.post(f"{path}?{query}", content=body_of(path))
    assert problem_of(reply, 422)["errors"][0]["path"].startswith("query")


@pytest.mark.parametrize("query", ["order=lcs&", "&order=lcs", "order=lcs&&", "&&order=lcs&&&total=product&"])
def test_a_bare_ampersand_is_ignored(client, path, query):
    (expected,) = expected_of([Rollout(SWAPPED + EOS, REFERENCE)], order="lcs")
    assert reward_of(client.post(f"{path}?{query}", content=body_of(path))) == expected["reward"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("query", ["?", "?&", "?&&&"])
def test_an_empty_query(client, path, query):
    assert client.post(path + query, content=body_of(path)).status_code == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("given", "status"), [("1e-9", 504), ("", 422), ("30", 200)])
def test_every_route_keeps_a_trainers_deadline(client, path, given, status):
    reply = client.post(path, content=body_of(path), headers={"x-request-timeout": given})
    assert reply.status_code == status


def test_options_belong_to_their_route(client):
    reply = client.post("/compat/openrlhf?format=float", content=body_of("/compat/openrlhf"))
    assert errors_of(problem_of(reply, 422)) == [("query.format", "unknown_setting")]
    reply = client.post("/compat/slime?format=list&order=lc", content=body_of("/compat/slime"))
    assert errors_of(problem_of(reply, 422)) == [
        ("query.format", "invalid_setting"),
        ("query.order", "invalid_setting"),
    ]
    reply = client.post(f"{GYM}/verify?reference_field=", content=body_of(f"{GYM}/verify"))
    assert errors_of(problem_of(reply, 422)) == [("query.reference_field", "invalid_setting")]


def test_more_queries_than_are_cached(client, path):
    """Each with a different coverage threshold, in two rounds."""
    (expected,) = expected_of([Rollout(SWAPPED, REFERENCE)])
    for _ in range(2):
        for k in range(70):
            reply = client.post(f"{path}?min_coverage=0.{k:04}", content=body_of(path))
            assert reward_of(reply) == expected["reward"]
    assert reward_of(client.post(f"{path}?order=lcs", content=body_of(path))) > expected["reward"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("slash", ["", "/", "//"])
def test_with_and_without_a_slash(client, path, slash):
    assert client.post(path + slash, content=body_of(path), follow_redirects=False).status_code == 200


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_is_not_json(client, path):
    for body in (b"{", b"\xff", b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"a": 1} x', body_of(path)[:-1]):
        problem_of(post(client, path, body), 400)
    problem_of(post(client, path, b"[]"), 422)
    problem_of(post(client, path, b"null"), 422)


@pytest.mark.parametrize("path", PATHS)
def test_other_media_types_and_encodings(client, path):
    for media_type in ("text/plain", "application/vnd.apache.arrow.stream", "application/json; charset=utf-16"):
        problem_of(client.post(path, content=body_of(path), headers={"content-type": media_type}), 415)
    problem_of(client.post(path, content=body_of(path), headers={"content-encoding": "br"}), 415)
    packed = gzip.compress(body_of(path))
    assert client.post(path, content=packed, headers={"content-encoding": "gzip"}).status_code == 200
    problem_of(client.post(path, content=packed[:-9], headers={"content-encoding": "gzip"}), 400)


def test_a_reference_over_the_limit(client, path):
    """Bytes of its text, and of its steps; both are too long for the event loop."""
    long = REFERENCE + " " * 262_144
    steps = {"steps": [{"action": "add", "objects": ["x" * 262_144], "parameters": []}]}
    for label in (long, steps):
        document = problem_of(client.post(path, content=body_of(path, label=label)), 422)
        assert errors_of(document) == [(LABEL_PATHS[path], "too_long")]
    wide = "\n".join(f'Step {k}: {{"action": "a", "objects": [], "parameters": []}}' for k in range(1, 1026))
    document = problem_of(client.post(path, content=body_of(path, label=wide)), 422)
    assert errors_of(document) == [(LABEL_PATHS[path], "too_long")]


def test_a_response_over_the_limit_is_a_result(client, path):
    reply = client.post(path, content=body_of(path, text=PERFECT + " " * 262_144))
    assert reward_of(reply) == 0.0
    numbers = reply.json().get("extra_logs") or reply.json()
    assert numbers["score_reason_code"] in (1.0, [1.0])


def test_too_many_rollouts():
    with launched("--drain-seconds", "0", "--max-responses", "3") as server, server.client() as client:
        server.wait_until_ready()
        for rows, status in ((3, 200), (4, 413)):
            document = {"query": [SWAPPED] * rows, "prompts": [""] * rows, "labels": [REFERENCE] * rows}
            assert post(client, "/compat/openrlhf", by_aiohttp(document)).status_code == status
        document = {"query": ["x"], "prompts": ["x"] * 5, "labels": []}
        found = problem_of(post(client, "/compat/openrlhf", by_aiohttp(document)), 413)
        assert errors_of(found) == [("prompts", "too_many")]


def test_hostile_members(client, path):
    """Sixteen megabytes of nested lists, in a member that is ignored and in one that is read."""
    nested = b"[" + b"[[],[]]," * 2_000_000 + b"0]"
    body = body_of(path)
    assert reward_of(post(client, path, b'{"x":' + nested + b"," + body[1:])) > 0
    broken = b'{"x":1, "%b":%b}' % (next(iter(SCORING[path]("", ""))).encode(), nested)
    reply = post(client, path, broken)
    assert problem_of(reply, reply.status_code)["status"] in (413, 422)


@pytest.fixture(scope="module")
def guarded():
    with launched("--drain-seconds", "0", environ={"ASSAY_API_KEYS": "the-key"}) as server:
        server.wait_until_ready()
        with server.client() as client:
            yield client


@pytest.mark.parametrize("path", PATHS)
def test_keys(guarded, path):
    body = body_of(path)
    basic = "Basic " + base64.b64encode(b"any:the-key").decode()
    for key in ("Bearer the-key", basic):
        assert post(guarded, path, body, authorization=key).status_code == 200
        assert post(guarded, path + "/", body, authorization=key).status_code == 200
    for headers in ({}, {"authorization": "Bearer another"}):
        problem_of(post(guarded, path, body, **headers), 401)
        problem_of(post(guarded, path + "/", b"{", **headers), 401)
    with httpx.Client(trust_env=False) as client:
        url = guarded.base_url.copy_with(userinfo=b"any:the-key", path=path)
        assert client.post(url, content=body).status_code == 200


def test_the_liveness_check_needs_no_key(guarded):
    assert guarded.get(GYM).status_code == 200


def test_trainers_are_patient_by_route():
    (middleware,) = create_app().user_middleware
    routes: Any = middleware.kwargs["routes"]
    patience = {path: routes[path, "POST"].max_queue_seconds for path in PATHS}
    assert 120 < patience["/compat/openrlhf"] < 180
    assert 60 < patience["/compat/slime"] < 120
    assert patience[f"{GYM}/verify"] > 180
    assert routes["/v1/score", "POST"].max_queue_seconds is None


@pytest.fixture(scope="module")
def description(client):
    return client.get("/openapi.json").json()


@pytest.mark.parametrize("path", PATHS)
def test_examples_are_right(client, description, path):
    operation = description["paths"][path]["post"]
    request = operation["requestBody"]["content"]["application/json"]
    reply = operation["responses"]["200"]["content"]["application/json"]
    assert (request["example"], reply["example"]) == EXAMPLES[path]
    assert client.post(path, json=request["example"]).json() == reply["example"]
    getattr(contract, request["schema"]["$ref"].rpartition("/")[2]).model_validate(request["example"])
    schema = reply["schema"].get("anyOf", [reply["schema"]])[0]
    getattr(contract, schema["$ref"].rpartition("/")[2]).model_validate(reply["example"])


@pytest.mark.parametrize("path", SCORING)
def test_settings_are_described(client, description, path):
    parameters = {one["name"]: one for one in description["paths"][path]["post"]["parameters"] if one["in"] == "query"}
    settings = client.get("/v1/config").json()["schema"]["properties"]
    own = {
        "/compat/openrlhf": {"scores"},
        "/compat/slime": {"format"},
        f"{GYM}/verify": {"reference_field", "on_bad_reference"},
    }
    assert set(parameters) == {*settings, "run", "task", "task_field", "options", *own[path]}
    assert all(one["description"] for one in parameters.values())

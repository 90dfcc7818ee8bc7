"""Everything around scoring: paths, headers, ids, keys, and descriptions."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from assay import ScoreSettings
from assay.service.rewards.registry import REWARD_TASKS
from assay.service.version import VERSION
from assay.service.wire import contract
from assay.service.wire.problems import KINDS
from tests.http.samples import (
    PERFECT,
    REFERENCE,
    REQUEST,
    problem_of,
)
from tests.servers import serving

MODELS: dict[str, Any] = {
    **{"/": contract.IndexReply, "/version": contract.VersionReply, "/v1/config": contract.ConfigReply},
    **{"/v1/tasks": contract.TasksReply, "/livez": contract.StatusReply, "/v2/health/live": contract.StatusReply},
    **dict.fromkeys(("/readyz", "/v2/health/ready", "/health", "/healthz", "/ping"), contract.StatusReply),
    **dict.fromkeys(("/compat/nemo-gym", "/compat/nemo-gym/reverify_mode", "/docs", "/metrics", "/openapi.json")),
}
"""The addresses of GET, with the models of replies."""
POST_PATHS = (
    *("/compat/nemo-gym/aggregate_metrics", "/compat/nemo-gym/close_session", "/compat/nemo-gym/seed_session"),
    *("/compat/eval-protocol/evaluate", "/compat/nemo-gym/verify", "/compat/openrlhf", "/compat/roll/submit"),
    *("/compat/slime", "/v1/evaluate", "/v1/explain", "/v1/score"),
)
METHODS = {**dict.fromkeys(MODELS, "GET, HEAD"), **dict.fromkeys(POST_PATHS, "POST"), "/compat/roll/result": "GET"}
NEEDING_A_KEY = {"/v1/config", "/v1/tasks", "/compat/nemo-gym/reverify_mode"}
GUARDED = {"/v1/score": REQUEST, "/v1/explain": {"response": PERFECT, "reference": REFERENCE}}
LONG = REQUEST | {"responses": [PERFECT + " " * 100_000]}


@pytest.mark.parametrize("path", MODELS)
def test_get_and_head_with_and_without_a_slash(client, path):
    for slash in ("", "/", "//"):
        url = str(client.base_url).rstrip("/") + path.rstrip("/") + slash
        reply, head = client.get(url, follow_redirects=False), client.head(url)
        assert (reply.status_code, head.status_code, head.content) == (200, 200, b"")
        assert path == "/metrics" or head.headers["content-length"] == reply.headers["content-length"]
        assert "server-timing" not in reply.headers
        assert reply.headers["x-request-id"] != head.headers["x-request-id"]
        assert MODELS[path] is None or MODELS[path].model_validate_json(reply.content)


def test_not_found(client):
    for path in ("/nope", "/v1", "/v1/scores", "/v1/score/x", "/docs/x", "/%00"):
        problem_of(client.get(path), 404)
        problem_of(client.post(path, json=REQUEST), 404)


@pytest.mark.parametrize(("path", "allowed"), METHODS.items(), ids=METHODS)
def test_method_not_allowed(client, path, allowed):
    for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - {*allowed.split(", ")}:
        reply = client.request(method, path)
        problem_of(reply, 405)
        assert reply.headers["allow"] == allowed


NO_STAGE: list[str] = []
STAGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"json": REQUEST}, ["decode", "score", "encode"]),
    ({"json": LONG}, ["decode", "score", "encode", "queue"]),
    ({"json": REQUEST | {"references": ["no step"]}}, ["decode"]),
    ({"content": b"{"}, NO_STAGE),
    ({"url": "/nope"}, NO_STAGE),
]


@pytest.mark.parametrize(("sent", "stages"), STAGES, ids=range(len(STAGES)))
def test_only_stages_that_ran_have_a_time(client, sent, stages):
    """A short request does not queue, a refused one has no scores, and most routes have no stages."""
    timing = client.post(**{"url": "/v1/score"} | sent).headers.get("server-timing", "")
    assert re.fullmatch(r"((\w+;dur=\d+\.\d{3})(, |$))*", timing)
    assert re.findall(r"(\w+);dur=", timing) == stages


URI_REFERENCE = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))"  # a scheme, or a first segment without a colon
    r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
    r"(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
"""RFC 3986, section 4.1, for references without an authority in brackets."""
ODD_IDS = ("1:2", "100%", "%zz", 'a"b', "{x}|y^`<z>", "//host/[::1", "a#b#c", "\\", "".join(map(chr, range(33, 127))))


def test_a_valid_id_is_returned(client):
    """In the problem document as a URI reference, whatever characters it has."""
    assert not any(map(URI_REFERENCE.fullmatch, ODD_IDS))
    for request_id in ("a", "6f1c2a9be0d34a57-1", "0123-abc/DEF:x=1", "x" * 128, *ODD_IDS):
        reply = client.get("/nope", headers={"x-request-id": request_id})
        assert reply.headers["x-request-id"] == request_id
        instance = problem_of(reply, 404)["instance"]
        assert URI_REFERENCE.fullmatch(instance), instance
        assert unquote(instance) == request_id


@pytest.mark.attack
def test_an_invalid_id_is_replaced(client):
    generated = set()
    for request_id in ("", "two words", "x" * 129, "tab\there", "caf\u00e9".encode("latin-1")):
        reply = client.get("/nope", headers={"x-request-id": request_id})
        assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", reply.headers["x-request-id"])
        generated.add(reply.headers["x-request-id"])
    assert len(generated) == 5


def test_descriptions_of_the_service(client):
    for path, model in MODELS.items():
        if model is contract.StatusReply:
            assert client.get(path).json() == {"status": "live" if "live" in path else "ready"}
    assert client.get("/version").json() == {"version": VERSION}
    for path in client.get("/").json()["links"].values():
        assert path in METHODS
    config = client.get("/v1/config").json()
    assert (config["config"], config["config_id"]) == (ScoreSettings().model_dump(), ScoreSettings().config_id)
    assert config["schema"] == ScoreSettings.model_json_schema()
    assert config["limits"] == {
        **{"max_body_bytes": 64 << 20, "max_responses": 65_536},
        **{"max_reference_bytes": 262_144, "deadline_seconds": 30.0},
    }
    tasks = {task["name"]: task for task in client.get("/v1/tasks").json()["tasks"]}
    assert set(tasks["score"]["reward"]["config"]["properties"]) == set(ScoreSettings.model_fields)
    assert set(tasks["score"]["options"]["properties"]) == {"profile", "think_prefilled", "metrics", "by"}
    assert all(task["metrics"] and (not task["reward"] or task["reward"]["reasons"]["ok"]) for task in tasks.values())


@pytest.fixture(scope="module")
def description(client):
    return client.get("/openapi.json").json()


def test_openapi_covers_every_route(description):
    pytest.importorskip("openapi_spec_validator").validate(description)
    assert {path: set(operations) for path, operations in description["paths"].items()} == {
        path: {"post" if allowed == "POST" else "get"} for path, allowed in METHODS.items()
    }


def test_openapi_of_scoring(description):
    operation = description["paths"]["/v1/score"]["post"]
    responses = operation["responses"]
    assert set(responses) == {"default", "200", *(str(kind.status) for kind in KINDS.values() if kind.status != 404)}
    problems = {}
    for response in responses.values():
        assert {"X-Request-ID", "Server-Timing"} <= response["headers"].keys()
        problems |= response["content"].get("application/problem+json", {}).get("examples", {})
    assert set(problems) == set(KINDS) - {"not-found"}
    for value in problems.values():
        contract.ProblemDocument.model_validate(value["value"])
    request = operation["requestBody"]["content"]["application/json"]["example"]
    contract.ScoreRequest.model_validate(request)
    example = responses["200"]["content"]["application/json"]["example"]
    contract.ScoreReply.model_validate(example)
    for body in (operation["requestBody"], responses["200"]):
        assert set(body["content"]) == {"application/json", "application/vnd.apache.arrow.stream"}
    value, each = description["components"]["schemas"]["TaskRewardRequest"]["properties"]["task"]["anyOf"]
    assert value["enum"] == each["items"]["enum"] == list(REWARD_TASKS)


@pytest.mark.attack
@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_docs_load_and_run_only_what_the_service_has(client, slashes):
    reply = client.get(f"/docs{slashes}")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    targets = re.findall(r"""(?:src|href|url)(?:=|: )["']([^"']+)""", reply.text)
    assert len(targets) == 4
    for target in targets:
        address = reply.url.join(target)
        assert address.path.startswith("/docs/")
        assert address.host == client.base_url.host
        assert client.get(address).status_code == 200
    servers = {"servers": [{"url": "..", "description": "this service"}]}
    assert client.get("/docs/openapi.json").json() == client.get("/openapi.json").json() | servers
    policy = dict(part.split(maxsplit=1) for part in reply.headers["content-security-policy"].split("; "))
    (script,) = re.findall(r"<script>(.*?)</script>", reply.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["img-src"] == "'self' data:"
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Serve an application that requires one of three keys, one of them from a file."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# trainers\n\nthird-key\n", encoding="utf-8")
    with serving({"ASSAY_API_KEYS": "first-key, second:key", "ASSAY_API_KEYS_FILE": str(keys)}) as client:
        yield client


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def guarded_replies(client: httpx.Client, authorization: Any) -> list[httpx.Response]:
    headers = {} if authorization is None else {"authorization": authorization}
    replies = [client.post(path, json=body, headers=headers) for path, body in GUARDED.items()]
    return [*replies, client.get("/v1/config/", headers=headers), client.get("/v1/tasks", headers=headers)]


RIGHT = ("Bearer first-key", "bearer  third-key", "BEARER second:key", basic(":third-key"), basic("any:second:key"))
WRONG = (None, "", "Bearer", "Bearer first", "Bearer first-key2", "first-key", "Digest first-key", "Bearer # trainers")
WRONG_BASIC = (basic("first-key"), basic("first-key:any"), basic("any:wrong"), "Basic ???", "Basic /w==")


@pytest.mark.parametrize("authorization", RIGHT)
def test_a_valid_key_is_accepted(guarded, authorization):
    assert [reply.status_code for reply in guarded_replies(guarded, authorization)] == [200] * 4


@pytest.mark.attack
@pytest.mark.parametrize("authorization", [*WRONG, *WRONG_BASIC, b"Bearer \xff\xfe"])
def test_without_a_key_401(guarded, authorization):
    for reply in guarded_replies(guarded, authorization):
        problem_of(reply, 401)
        challenges = reply.headers.get_list("www-authenticate")
        assert [challenge.split()[0] for challenge in challenges] == ["Bearer", "Basic"]


@pytest.mark.attack
def test_what_needs_a_key(guarded):
    with httpx.Client(trust_env=False) as client:
        url = guarded.base_url.copy_with(userinfo=b"any:first-key", path="/v1/score")
        assert client.post(url, json=REQUEST).status_code == 200
    assert {path for path in MODELS if guarded.get(path).status_code != 200} == NEEDING_A_KEY

"""Everything around scoring: paths, headers, ids, keys, and descriptions."""

from __future__ import annotations

import base64
import hashlib
import re
from urllib.parse import unquote

import httpx
import pytest
from pydantic import BaseModel

from assay import ScoreSettings
from assay.service.config import load
from assay.service.http.app import create_app
from assay.service.http.wire.contract import (
    ConfigReply,
    IndexReply,
    ProblemDocument,
    ScoreReply,
    ScoreRequest,
    StatusReply,
    TasksReply,
    VersionReply,
)
from assay.service.http.wire.headers import KINDS
from assay.service.rewards.registry import REWARD_TASKS
from assay.service.version import VERSION
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import running, wait_for

PATHS = {
    "/": {"get"},
    "/compat/nemo-gym": {"get"},
    "/compat/nemo-gym/aggregate_metrics": {"post"},
    "/compat/nemo-gym/close_session": {"post"},
    "/compat/nemo-gym/reverify_mode": {"get"},
    "/compat/nemo-gym/seed_session": {"post"},
    "/compat/nemo-gym/verify": {"post"},
    "/compat/openrlhf": {"post"},
    "/compat/slime": {"post"},
    "/docs": {"get"},
    "/health": {"get"},
    "/healthz": {"get"},
    "/livez": {"get"},
    "/metrics": {"get"},
    "/openapi.json": {"get"},
    "/ping": {"get"},
    "/readyz": {"get"},
    "/v1/config": {"get"},
    "/v1/evaluate": {"post"},
    "/v1/explain": {"post"},
    "/v1/score": {"post"},
    "/v1/tasks": {"get"},
    "/v2/health/live": {"get"},
    "/v2/health/ready": {"get"},
    "/version": {"get"},
}
NEEDING_A_KEY = {"/v1/config", "/v1/tasks", "/compat/nemo-gym/reverify_mode"}
GUARDED = {"/v1/score": REQUEST, "/v1/explain": {"response": PERFECT, "reference": REFERENCE}}
GET_PATHS = sorted(path for path, methods in PATHS.items() if "get" in methods)


def test_get_with_and_without_a_trailing_slash(client):
    base = str(client.base_url).rstrip("/")
    addresses = [base + path.rstrip("/") + slash for path in GET_PATHS for slash in ("", "/", "//")]
    replies = [client.get(address, follow_redirects=False) for address in addresses]
    assert [(reply.url.path, reply.status_code) for reply in replies if reply.status_code != 200] == []


def test_head_is_get_without_its_body(client):
    failed = []
    for path in GET_PATHS:
        reply, got = client.head(path), client.get(path)
        lengths = {one.headers["content-length"] for one in (reply, got)}
        if (reply.status_code, reply.content) != (200, b"") or (
            len(lengths) > 1 and path != "/metrics"
        ):  # which changes
            failed.append((path, reply.status_code, lengths))
    assert failed == []


def test_not_found(client):
    for path in ("/nope", "/v1", "/v1/scores", "/v1/score/x", "/docs/x", "/%00"):
        problem_of(client.get(path), 404)
        problem_of(client.post(path, json=REQUEST), 404)


def test_method_not_allowed(client):
    failed = []
    for path, methods in PATHS.items():
        for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} - {one.upper() for one in methods}:
            reply = client.request(method, path)
            allowed = "POST" if methods == {"post"} else "GET, HEAD"
            if (reply.status_code, reply.headers.get("allow")) != (405, allowed):
                failed.append((method, path, reply.status_code, reply.headers.get("allow")))
    assert failed == []
    problem_of(reply, 405)


def test_every_reply_has_an_id(client):
    replies = [client.get(path) for path in (*GET_PATHS, "/nope")] + [client.post("/v1/score", json=REQUEST)]
    assert len({reply.headers["x-request-id"] for reply in replies}) == len(replies)


def stages_of(reply: httpx.Response) -> list[str]:
    """Return the stages in `Server-Timing`; none without the header."""
    timing = reply.headers.get("server-timing", "")
    assert re.fullmatch(r"((\w+;dur=\d+\.\d{3})(, |$))*", timing)
    return re.findall(r"(\w+);dur=", timing)


def test_only_stages_that_ran_have_a_time(client):
    """A short request does not queue, a refused one has no scores, and most routes have no stages."""
    assert stages_of(client.post("/v1/score", json=REQUEST)) == ["decode", "score", "encode"]
    mixed = {"task": "bioprobench.pqa", "references": ["5 ml"], "responses": [""]}
    assert stages_of(client.post("/v1/score", json=mixed)) == ["decode", "score", "encode"]
    slime = client.post("/compat/slime", json={"response": "", "label": REFERENCE})
    assert stages_of(slime) == ["decode", "score", "encode"]
    long = REQUEST | {"responses": [PERFECT + " " * 100_000]}
    assert stages_of(client.post("/v1/score", json=long)) == ["decode", "score", "encode", "queue"]
    assert stages_of(client.post("/v1/score", json=REQUEST | {"references": ["no step"]})) == ["decode"]
    assert stages_of(client.post("/v1/score", content=b"{")) == []
    silent = [client.get(path) for path in (*GET_PATHS, "/nope")]
    silent += [client.post("/compat/nemo-gym/seed_session", json={}), client.put("/v1/score")]
    etag = client.get("/", headers={"accept": "text/html"}).headers["etag"]
    silent.append(client.get("/", headers={"accept": "text/html", "if-none-match": etag}))
    assert [reply.url.path for reply in silent if "server-timing" in reply.headers] == []


URI_REFERENCE = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*:|(?![^/?#]*:))"  # a scheme, or a first segment without a colon
    r"([A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
    r"(\?([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?(#([A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*)?"
)
"""RFC 3986, section 4.1, for references without an authority in brackets."""

ODD_IDS = (
    "1:2",
    "100%",
    "%zz",
    "a b".replace(" ", '"'),
    "{x}|y^`<z>",
    "//host/[::1",
    "a#b#c",
    "\\",
    "".join(map(chr, range(33, 127))),
)


def test_a_valid_id_is_returned(client):
    """In the problem document as a URI reference, whatever characters it has."""
    for given in ("a", "6f1c2a9be0d34a57-1", "0123-abc/DEF:x=1", "x" * 128, *ODD_IDS):
        reply = client.get("/nope", headers={"x-request-id": given})
        assert reply.headers["x-request-id"] == given
        instance = problem_of(reply, 404)["instance"]
        assert URI_REFERENCE.fullmatch(instance), instance
        assert unquote(instance) == given
    assert [known for known in ODD_IDS if URI_REFERENCE.fullmatch(known)] == []


@pytest.mark.attack
def test_an_invalid_id_is_replaced(client):
    for given in ("", "two words", "x" * 129, "tab\there", "caf\u00e9".encode("latin-1")):
        reply = client.get("/nope", headers={"x-request-id": given})
        assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]+", reply.headers["x-request-id"])


def test_probes(client):
    for path in ("/livez", "/v2/health/live"):
        assert client.get(path).json() == {"status": "live"}
    for path in ("/readyz", "/v2/health/ready", "/health", "/healthz", "/ping"):
        assert client.get(path).json() == {"status": "ready"}
    assert client.get("/version").json() == {"version": VERSION}


def test_config(client):
    reply = client.get("/v1/config").json()
    assert reply["config"] == ScoreSettings().model_dump()
    assert reply["config_id"] == ScoreSettings().config_id
    assert reply["schema"] == ScoreSettings.model_json_schema()
    assert reply["limits"] == {
        "max_body_bytes": 64 << 20,
        "max_responses": 65_536,
        "max_reference_bytes": 262_144,
        "deadline_seconds": 30.0,
    }


def test_tasks(client):
    tasks = {task["name"]: task for task in client.get("/v1/tasks").json()["tasks"]}
    assert set(tasks["score"]["reward"]["config"]["properties"]) == set(ScoreSettings.model_fields)
    assert set(tasks["score"]["options"]["properties"]) == {"profile", "think_prefilled", "metrics", "by"}
    for task in tasks.values():
        assert task["metrics"]
        assert task["reward"] is None or task["reward"]["reasons"]["ok"]


def test_links_of_the_index_work(client):
    for path in client.get("/").json()["links"].values():
        assert client.get(path).status_code in (200, 405)


MODELS: dict[str, type[BaseModel]] = {
    "/": IndexReply,
    "/health": StatusReply,
    "/healthz": StatusReply,
    "/livez": StatusReply,
    "/ping": StatusReply,
    "/readyz": StatusReply,
    "/version": VersionReply,
    "/v1/config": ConfigReply,
    "/v1/tasks": TasksReply,
}


def test_replies_match_their_models(client):
    for path, model in MODELS.items():
        model.model_validate_json(client.get(path).content)


@pytest.fixture(scope="module")
def description(client):
    return client.get("/openapi.json").json()


def test_openapi_is_valid(description):
    pytest.importorskip("openapi_spec_validator").validate(description)


def test_openapi_covers_every_route(description):
    assert {path: set(operations) for path, operations in description["paths"].items()} == PATHS


def test_openapi_describes_every_error_of_scoring(description):
    responses = description["paths"]["/v1/score"]["post"]["responses"]
    assert set(responses) == {
        *("200", "400", "401", "403", "405", "408", "413", "415", "421", "422", "429", "431", "500", "503", "504"),
        "default",
    }
    assert {name for one in responses.values() for name in problem_examples(one)} == set(KINDS) - {"not-found"}
    for response in responses.values():
        assert {"X-Request-ID", "Server-Timing"} <= response["headers"].keys()
    assert "Server-Timing" not in description["paths"]["/readyz"]["get"]["responses"]["200"]["headers"]


def problem_examples(response):
    return response["content"].get("application/problem+json", {}).get("examples", {})


def test_openapi_examples_match_their_models(client, description):
    operation = description["paths"]["/v1/score"]["post"]
    request = operation["requestBody"]["content"]["application/json"]["example"]
    ScoreRequest.model_validate(request)
    example = operation["responses"]["200"]["content"]["application/json"]["example"]
    ScoreReply.model_validate(example)
    for response in operation["responses"].values():
        for one in problem_examples(response).values():
            ProblemDocument.model_validate(one["value"])
    reply = client.post("/v1/score", json=request).json()
    of_this_version = {"config_id": "", "signature": ""}
    assert reply | of_this_version == example | of_this_version


def test_openapi_describes_streams_and_tasks(description):
    operation = description["paths"]["/v1/score"]["post"]
    for body in (operation["requestBody"], operation["responses"]["200"]):
        assert set(body["content"]) == {"application/json", "application/vnd.apache.arrow.stream"}
    assert {"config", "include", "task", "run"} <= {one["name"] for one in operation["parameters"]}
    one, each = description["components"]["schemas"]["TaskRewardRequest"]["properties"]["task"]["anyOf"]
    assert one["enum"] == each["items"]["enum"] == list(REWARD_TASKS)


@pytest.mark.attack
@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_docs_load_only_what_the_service_has(client, slashes):
    reply = client.get(f"/docs{slashes}")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    targets = re.findall(r"""(?:src|href|url)(?:=|: )["']([^"']+)""", reply.text)
    assert len(targets) == 4
    for target in targets:
        address = reply.url.join(target)
        assert address.path.startswith("/docs/")
        assert address.host == client.base_url.host
        assert client.get(address).status_code == 200
    assert client.get("/docs/openapi.json").json() == client.get("/openapi.json").json() | {
        "servers": [{"url": "..", "description": "this service"}]
    }


@pytest.mark.attack
def test_docs_run_only_what_the_service_sends(client):
    reply = client.get("/docs")
    policy = dict(part.split(maxsplit=1) for part in reply.headers["content-security-policy"].split("; "))
    (script,) = re.findall(r"<script>(.*?)</script>", reply.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["img-src"] == "'self' data:"
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_docs_explain_every_problem(client):
    text = client.get("/docs").text
    assert [kind for kind in KINDS if text.count(f'id="problem-{kind}"') != 1] == []
    problems = text.partition("<h2>Problems</h2>")[2]
    assert "after <code>Retry-After</code> seconds" in problems
    assert "`" not in problems


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Serve an application that requires one of three keys, one of them from a file."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# trainers\n\nthird-key\n", encoding="utf-8")
    environ = {"ASSAY_API_KEYS": "first-key, second:key", "ASSAY_API_KEYS_FILE": str(keys)}
    with running(create_app(load({}, environ))) as client:
        wait_for(client, "/readyz", 200)
        yield client


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_valid_key_is_accepted(guarded):
    for authorization in (
        "Bearer first-key",
        "bearer  third-key",
        "BEARER second:key",
        basic("any:first-key"),
        basic(":third-key"),
        basic("any:second:key"),
    ):
        headers = {"authorization": authorization}
        replies = [guarded.post(path, json=body, headers=headers) for path, body in GUARDED.items()]
        replies.append(guarded.get("/v1/config/", headers=headers))
        assert [reply.status_code for reply in replies] == [200] * len(replies), authorization


@pytest.mark.attack
def test_without_a_key_401(guarded):
    for authorization in (
        None,
        "",
        "Bearer",
        "Bearer first",
        "Bearer first-key2",
        "first-key",
        "Digest first-key",
        basic("first-key"),
        basic("first-key:any"),
        basic("any:wrong"),
        "Basic ???",
        "Basic /w==",
        "Bearer # trainers",
        b"Bearer \xff\xfe",
    ):
        headers = {} if authorization is None else {"authorization": authorization}
        replies = [guarded.post(path, json=body, headers=headers) for path, body in GUARDED.items()]
        for reply in (*replies, guarded.get("/v1/tasks", headers=headers)):
            problem_of(reply, 401)
            challenges = reply.headers.get_list("www-authenticate")
            assert [challenge.split()[0] for challenge in challenges] == ["Bearer", "Basic"]


@pytest.mark.attack
def test_a_key_in_the_url(guarded):
    with httpx.Client(trust_env=False) as client:
        url = guarded.base_url.copy_with(userinfo=b"any:first-key", path="/v1/score")
        assert client.post(url, json=REQUEST).status_code == 200


def test_probes_metrics_and_descriptions_need_no_key(guarded):
    open_paths = [path for path in GET_PATHS if guarded.get(path).status_code == 200]
    assert set(GET_PATHS) - set(open_paths) == NEEDING_A_KEY

"""The OpenAPI document says what the service takes: every value of every parameter, and every form of a body."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import orjson
import pytest

from assay.service.rewards.registry import REWARD_TASKS
from tests.cases.mixed import ROWS
from tests.http.samples import PERFECT, REFERENCE, REQUEST, STEPS, SWAPPED, errors_of, paths_with_bodies, problem_of

jsonschema = pytest.importorskip("jsonschema")

PATHS = paths_with_bodies()
TEXTS = {"run": "a run", "X-Assay-Run": "a run", "X-Request-ID": "an-id", "reference_field": "reference"}
"""Values of parameters that may be any text, or nearly so."""
STEP = STEPS["steps"][0]


@pytest.fixture(scope="module")
def description(client) -> dict[str, Any]:
    document: dict[str, Any] = client.get("/openapi.json").json()
    return document


def values_of(name: str, schema: Mapping[str, Any]) -> list[Any]:
    """Return all values that a schema lists, or its limits, or a text."""
    if "anyOf" in schema:
        return [value for each in schema["anyOf"] for value in values_of(name, each)]
    if "const" in schema or "enum" in schema:
        return [schema["const"]] if "const" in schema else list(schema["enum"])
    if schema["type"] == "boolean":
        return ["true", "false"]
    if schema["type"] in ("number", "integer"):
        over = schema.get("exclusiveMinimum", 0) + 1e-9 if schema["type"] == "number" else 1
        return [schema.get("minimum", over), schema.get("maximum", schema.get("default", 1))]
    return ["components", "components,advantages", "", ",advantages"] if name == "include" else [TEXTS[name]]


def sent(client: httpx.Client, path: str, parameter: Mapping[str, Any], value: Any, body: Any) -> httpx.Response:
    """Send a body with one parameter."""
    name, content = parameter["name"], orjson.dumps(body)
    if parameter["in"] == "query":
        return client.post(path, content=content, params={name: value})
    if name == "Content-Encoding" and value.endswith("gzip"):
        content = gzip.compress(content)
    if value == "zstd":
        content = pytest.importorskip("zstandard").compress(content)
    return client.post(path, content=content, headers={name: str(value)})


def parameters_of(operation: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters that suit any body: `task` and the options of tasks need references of their own."""
    for parameter in operation["parameters"]:
        if parameter["name"] not in ("task", "options", "task_field", "config"):
            yield parameter


@pytest.mark.parametrize("path", PATHS)
def test_every_described_value_is_taken(client, description, path):
    operation = description["paths"][path]["post"]
    body = dict(operation["requestBody"]["content"]["application/json"]["example"])
    body.pop("include", None)
    refused = []
    for parameter in parameters_of(operation):
        for value in values_of(parameter["name"], parameter["schema"]):
            reply = sent(client, path, parameter, value, body)
            late = parameter["name"] == "X-Request-Timeout" and reply.status_code == 504
            if reply.status_code != 200 and not late:
                refused.append((parameter["name"], value, errors_of(reply.json())))
    assert refused in ([], [("max_steps", 1, refused and refused[0][2])])  # the example's reference has two


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("name", "value", "status"), [("X-Request-Timeout", "0", 422), ("Content-Encoding", "br", 415)]
)
def test_values_that_are_not_described_are_refused(client, description, path, name, value, status):
    (schema,) = (one["schema"] for one in description["paths"][path]["post"]["parameters"] if one["name"] == name)
    assert not jsonschema.Draft202012Validator(schema).is_valid(float(value) if value.isdigit() else value)
    problem_of(client.post(path, json={}, headers={name: value}), status)


def test_a_timeout_below_the_least_is_over_at_once(client, description):
    (schema,) = (
        one["schema"]
        for one in description["paths"]["/v1/score"]["post"]["parameters"]
        if one["name"] == "X-Request-Timeout"
    )
    assert schema["minimum"] > 0
    for seconds in ("1e-9", "5e-324"):
        problem_of(client.post("/v1/score", json=REQUEST, headers={"x-request-timeout": seconds}), 504)


def test_every_task_and_its_options_are_described_as_trainers_send_them(client, description):
    """`?task=` with an option by its name, and `?task_field=` with `TASK.NAME`."""
    parameters = {one["name"]: one for one in description["paths"]["/compat/slime"]["post"]["parameters"]}
    assert parameters["task"]["schema"]["enum"] == list(REWARD_TASKS)
    options = parameters["options"]["schema"]["properties"]
    samples = {row.task: {"response": row.response, "label": row.reference} for row in reversed(ROWS)}
    for task in REWARD_TASKS:
        reply = client.post("/compat/slime", json=samples[task], params={"task": task})
        assert taken(reply), reply.text
    dotted = {name: schema for name, schema in options.items() if name.startswith(REWARD_TASKS[1:])}
    assert {name.rpartition(".")[2] for name in dotted} == options.keys() - dotted.keys()
    for name, schema in dotted.items():
        task, _, option = name.rpartition(".")
        label = {"task": task, "reference": samples[task]["label"]}
        for value in values_of(option, schema):
            both = [{"task": task, option: value}, {"task_field": "label.task", name: value}]
            replies = [
                client.post("/compat/slime", json=samples[task], params=both[0]),
                client.post("/compat/slime", json=samples[task] | {"label": label}, params=both[1]),
            ]
            assert all(map(taken, replies)), (name, value, replies[0].text, replies[1].text)


def taken(reply: httpx.Response) -> bool:
    """Return whether a request is right, even if this service lacks a package or weights for it."""
    return reply.status_code == 200 or {reason for _, reason in errors_of(reply.json())} == {"not_installed"}


REFERENCES: dict[str, tuple[Any, bool]] = {
    "key lines": (REFERENCE, True),
    "a whole answer": (PERFECT, True),
    "steps": (STEPS, True),
    "no text": ("", False),
    "text without steps": ("Add the buffer.", False),
    "no steps": ({"steps": []}, False),
    "an action without a letter": ({"steps": [STEP | {"action": ""}]}, False),
    "a blank action": ({"steps": [STEP | {"action": " "}]}, False),
    "a further member": ({"steps": [STEP | {"note": ""}]}, False),
    "a record": ({"answer": "5 ml"}, False),
    "nothing": (None, False),
}


@pytest.mark.parametrize(("reference", "right"), REFERENCES.values(), ids=REFERENCES)
def test_references_of_score_are_described(client, description, reference, right):
    bodies = {
        "/v1/score": {"references": [reference], "responses": [PERFECT]},
        "/v1/explain": {"reference": reference, "response": PERFECT},
    }
    models = {"/v1/score": "ScoreRequest", "/v1/explain": "ExplainRequest"}
    for path, body in bodies.items():
        schema = {"$ref": f"#/components/schemas/{models[path]}"}
        valid = jsonschema.Draft202012Validator({**schema, "components": description["components"]}).is_valid(body)
        assert (valid, client.post(path, json=body).status_code) == (right, 200 if right else 422), path


@pytest.mark.parametrize(
    ("config", "right"),
    [({}, True), ({"order": "lcs", "min_coverage": 1}, True), ({"ordr": "lcs"}, False), ({"min_coverage": 2}, False)],
)
def test_settings_of_requests_are_described(client, description, config, right):
    explained = {"response": PERFECT, "reference": REFERENCE, "config": config}
    bodies = [
        ("/v1/score", "ScoreRequest", REQUEST | {"config": config}),
        ("/v1/score", "ScoreRequest", REQUEST | {"configs": [config]}),
        ("/v1/explain", "ExplainRequest", explained),
    ]
    for path, model, body in bodies:
        schema = {"$ref": f"#/components/schemas/{model}", "components": description["components"]}
        assert jsonschema.Draft202012Validator(schema).is_valid(body) == right
        assert client.post(path, json=body).status_code == (200 if right else 422)


def test_tasks_of_evaluations_are_described(client, description):
    names = [task["name"] for task in client.get("/v1/tasks").json()["tasks"]]
    assert description["components"]["schemas"]["EvaluateRequest"]["properties"]["task"]["enum"] == names


# The query of POST /v1/score with JSON


def test_fields_of_json_in_the_query(client):
    body = {"references": [REFERENCE], "responses": [PERFECT, SWAPPED]}
    fields: dict[str, Any] = {"config": {"order": "lcs"}, "include": ["advantages"], "task": "score"}
    query = {"config": json.dumps(fields["config"]), "include": "advantages", "task": "score"}
    assert (
        client.post("/v1/score", json=body, params=query).json() == client.post("/v1/score", json=body | fields).json()
    )
    pqa = {"references": ["5 ml"], "responses": ["[ANSWER_START]5 ml & 90[ANSWER_END]"]}
    query = {"task": "bioprobench.pqa", "config": '{"reward":"calibrated"}', "run": "by query"}
    reply = client.post("/v1/score", json=pqa, params=query)
    fields = {"task": "bioprobench.pqa", "config": {"reward": "calibrated"}}
    assert reply.json() == client.post("/v1/score", json=pqa | fields).json()
    long = body | {"responses": [PERFECT + " " * 100_000]}
    reply = client.post("/v1/score", json=long, params={"include": "components"})
    assert reply.json() == client.post("/v1/score", json=long | {"include": ["components"]}).json()


@pytest.mark.parametrize(
    ("query", "fields", "errors"),
    [
        ("order=lcs", {}, [("query.order", "unknown_field")]),
        ("task=scor", {}, [("query.task", "unknown_task")]),
        ("config=[]&include=all", {}, [("query.include", "unknown_column"), ("query.config", "wrong_type")]),
        ("task=score&task=score", {}, [("query.task", "repeated_setting")]),
        ("config={%22ordr%22:1}", {}, [("config.ordr", "unknown_setting")]),
        (
            "task=lexical&config={%22order%22:%22lcs%22}",
            {"task": "score", "config": {}},
            [("query.config", "repeated_setting"), ("query.task", "repeated_setting")],
        ),
    ],
)
def test_wrong_fields_in_the_query(client, query, fields, errors):
    assert errors_of(problem_of(client.post(f"/v1/score?{query}", json=REQUEST | fields), 422)) == errors


@pytest.mark.parametrize("path", ["/v1/explain", "/v1/evaluate"])
def test_other_requests_take_no_query(client, path):
    assert errors_of(problem_of(client.post(f"{path}?task=score", json={}), 422)) == [("query", "unknown_field")]

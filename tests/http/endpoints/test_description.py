"""The OpenAPI document says what the service takes: every value of every parameter, and every form of a body."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import orjson
import pytest

from tests.http.samples import (
    PERFECT,
    REFERENCE,
    REQUEST,
    SWAPPED,
    errors_of,
    paths_with_bodies,
    problem_of,
    scored,
)

PATHS = paths_with_bodies()
TEXTS = {"run": "a run", "X-Assay-Run": "a run", "X-Request-ID": "an-id", "reference_field": "reference"}
"""Values of parameters that may be any text, or nearly so."""


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


# The query of POST /v1/score with JSON

BODY = {"references": [REFERENCE], "responses": [PERFECT, SWAPPED]}


def test_fields_of_json_in_the_query(client):
    query = {"config": '{"order":"lcs"}', "include": "advantages", "task": "score"}
    fields = {"config": {"order": "lcs"}, "include": ["advantages"], "task": "score"}
    assert scored(client, BODY, params=query) == scored(client, BODY | fields)


@pytest.mark.parametrize(
    ("query", "errors"),
    [
        ("config=[]&include=all", [("query.include", "unknown_column"), ("query.config", "wrong_type")]),
        ("task=score&task=score", [("query.task", "repeated_setting")]),
        ("task=lexical&config={}&include=", [("query.config", "repeated_setting"), ("query.task", "repeated_setting")]),
    ],
)
def test_wrong_fields_in_the_query(client, query, errors):
    body = REQUEST | ({"task": "score", "config": {}} if "lexical" in query else {})
    assert errors_of(problem_of(client.post(f"/v1/score?{query}", json=body), 422)) == errors


@pytest.mark.parametrize("path", ["/v1/explain", "/v1/evaluate"])
def test_other_requests_take_no_query(client, path):
    assert errors_of(problem_of(client.post(f"{path}?task=score", json={}), 422)) == [("query", "unknown_field")]

"""Small references and responses with known rewards, and checks of errors."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx

ADD = '{"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}'
SPIN = '{"action": "spin", "objects": ["tube"], "parameters": []}'
REFERENCE = f"Step 1: {ADD}\nStep 2: {SPIN}"
STEPS = {
    "steps": [
        {"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]},
        {"action": "spin", "objects": ["tube"], "parameters": []},
    ]
}
PERFECT = (
    f"<think>…</think><key>\n{REFERENCE}\n</key>"
    "<orc>\nStep 1: Add 5 ml of lysis buffer.\nStep 2: Spin the tube.\n</orc><note>-</note>"
)
SWAPPED = (
    f"<think>…</think><key>\nStep 1: {SPIN}\nStep 2: {ADD}\n</key>"
    "<orc>\nStep 1: Spin the tube.\nStep 2: Add 5 ml of lysis buffer.\n</orc><note>-</note>"
)
SWAPPED_REWARD = 1.5 * (1 - 0.5**1.5) / 2.5
REQUEST = {"references": [REFERENCE], "responses": [PERFECT, SWAPPED, "nothing"]}
REWARDS = [1.0, SWAPPED_REWARD, 0.0]

PROBLEM_FIELDS = {"type", "title", "status", "detail", "instance", "errors", "error_count"}


def problem_of(reply: httpx.Response, status: int) -> dict[str, Any]:
    """Return the problem document of a reply, after checking that it is valid."""
    assert reply.status_code == status, reply.text[:500]
    assert reply.headers["content-type"] == "application/problem+json"
    document = reply.json()
    assert document.keys() == PROBLEM_FIELDS
    assert document["status"] == status
    assert unquote(document["instance"]) == reply.headers["x-request-id"]
    assert document["type"].startswith("/docs#problem-")
    assert len(document["errors"]) == min(document["error_count"], 100)
    assert all(error.keys() == {"path", "reason", "detail"} for error in document["errors"])
    return document


def scored(client: httpx.Client, request: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the reply to a body of /v1/score, after checking that there is one."""
    reply = client.post("/v1/score", json=request, **options)
    assert reply.status_code == 200, reply.text[:500]
    assert reply.headers["content-type"] == "application/json"
    document: dict[str, Any] = reply.json()
    return document


def with_places(entry: dict[str, Any], reply: dict[str, Any]) -> dict[str, Any]:
    """Return an entry of a reply's `configs` whose steps have what they share with the steps of the reply."""
    steps, first_steps = entry["steps"], reply["steps"]
    if [len(row) for row in steps] != [len(row) for row in first_steps]:
        return entry  # the texts are read otherwise: nothing is shared
    rows = zip(first_steps, steps, strict=True)
    return entry | {"steps": [[first | step for first, step in zip(*row, strict=True)] for row in rows]}


COMMAND_LINE = r"pip install|python -m|--\w"
"""What no sentence of a reply has: advice for those who run the program."""


def errors_of(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (path, reason) of every error, in the document's order."""
    return [(error["path"], error["reason"]) for error in document["errors"]]


@cache
def paths_with_bodies() -> list[str]:
    """Return the paths of the OpenAPI document that take a body, all but the one of ROLL that reads it from a GET."""
    # not at the top: the tests of trainers' code use this file without the service
    from assay.service.config import Config
    from assay.service.http.app import create_app

    description = create_app(Config()).openapi()
    return sorted(
        path
        for path, operations in description["paths"].items()
        if any("requestBody" in operation for method, operation in operations.items() if method != "get")
    )

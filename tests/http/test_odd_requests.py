"""No member of any request, whatever its value, is an error of the service."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from assay.service.config import Config
from assay.service.http.app import create_app
from tests.http.odd_requests import OddRequest, pairs, queries, singles

HEADERS = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    return create_app(Config()).openapi()


def refuse(constant: str) -> None:
    raise AssertionError(f"the reply holds {constant}")


def numbers_in(document: dict[str, Any]) -> list[Any]:
    """Return what stands for numbers in a reply of scores."""
    columns = [document.get("rewards"), document.get("advantages"), [document.get("reward", 0)]]
    columns += [column for column in document.get("components", {}).values() if isinstance(column, list)]
    return [number for column in columns for number in column or []]


def check(client: httpx.Client, requests: Iterable[OddRequest]) -> None:
    """Send requests one after another; raise AssertionError unless every reply is JSON and none is a server error."""
    statuses: set[int] = set()
    for path, body in requests:
        reply = client.post(path, content=body, headers=HEADERS)
        statuses.add(reply.status_code)
        assert reply.status_code < 500, (path, body[:2_000], reply.text[:500])
        document = json.loads(reply.content, parse_constant=refuse)
        assert reply.headers["content-type"] == (
            "application/json" if reply.status_code == 200 else "application/problem+json"
        )
        if reply.status_code == 200 and not path.startswith("/v1/evaluate"):  # where a metric may have no value
            assert None not in numbers_in(document), (path, body[:2_000])
    assert {200, 422} <= statuses


@pytest.mark.attack
def test_no_odd_request_is_an_error_of_the_service(client: httpx.Client, description: dict[str, Any]) -> None:
    """Values of every JSON type in place of one member and of two, and odd queries: a sample of each."""
    check(client, random.Random(1).sample(singles(description), 800))
    check(client, pairs(description, 400, seed=2))
    check(client, random.Random(3).sample(queries(description), 200))


@pytest.mark.slow
@pytest.mark.attack
def test_all_odd_requests(client: httpx.Client, description: dict[str, Any]) -> None:
    check(client, [*singles(description), *queries(description), *pairs(description, 20_000, seed=4)])


@pytest.mark.attack
@pytest.mark.parametrize("value", ["1", "null", "true", "0.5", '"components"', "{}"])
@pytest.mark.parametrize("task", ['["score"]', '"bioprobench.pqa"'])
def test_an_include_that_is_no_array_is_an_invalid_request(client: httpx.Client, value: str, task: str) -> None:
    """A member that is looked into before its type is checked."""
    body = f'{{"task": {task}, "include": {value}, "responses": ["x"], "references": ["x"]}}'
    reply = client.post("/v1/score", content=body, headers=HEADERS)
    assert reply.status_code == 422
    assert ("include", "wrong_type") in [(issue["path"], issue["reason"]) for issue in reply.json()["errors"]]

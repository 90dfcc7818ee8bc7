"""No member of any request, whatever its value, is an error of the service.

The requests are made of valid ones by putting values of every JSON type where a member may be, alone and in pairs. The
members come from the description of the service and from the models of records, settings and options, so that a new
member is tried by itself.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import httpx
import pytest

from assay.service.config import Config
from assay.service.http.app import create_app
from assay.service.http.endpoints.trainers.contract import EXAMPLES
from assay.service.rewards.registry import REWARD_TASKS
from assay.service.settings import ScoreSettings
from assay.service.tasks.evaluation import every_task, task_named
from tests.cases.mixed import ROWS, columns

VALUES = (
    *("null", "true", "false", "0", "-1", "0.5", "1e400", str(2**70), '""', '"x"', json.dumps("x y\n" * 500)),
    *("[]", "[null]", "[[]]", "{}", '{"a":1}', '{"a":[{"b":[null,1e5]}],"":{}}', '["score"]', '["components",1]'),
    *('"\\ud83d"', '["x","x"]', "[[[[[0]]]]]", "[0,1]", "[-1,1e30]", '"{\\"steps\\":1}"'),
)
QUERY_VALUES = (
    *("", "x", "null", "true", "0", "-1", "0.5", "1e400", "inf", "nan", str(2**70), "%00", "%FF", "[]", "a.b.c", "."),
)
PLACE = "@{}@"
NATIVE = "/v1/score"

Path = tuple[str | int, ...]
"""The path of a value in a document: names of members and indices of elements."""


class OddRequest(NamedTuple):
    """One request to a route."""

    path: str
    body: bytes


class Base(NamedTuple):
    """A valid request, and the paths where a value may be put."""

    path: str
    document: dict[str, Any]
    slots: list[Path]


def paths_in(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values in a document; of an array, the first and a new last element."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, member in value.items():
            yield from paths_in(member, (*path, name))
    elif isinstance(value, list) and value:
        yield from paths_in(value[0], (*path, 0))
        yield (*path, len(value))


def replaced(document: Any, path: Path, value: Any) -> Any:
    """Return a document with another value at a path; missing objects and arrays on the way are made."""
    if not path:
        return value
    step, following = path[0], path[1:]
    if isinstance(step, str):
        members = dict(document) if isinstance(document, dict) else {}
        return members | {step: replaced(members.get(step), following, value)}
    elements = list(document) if isinstance(document, list) else []
    before, element, after = elements[:step], elements[step : step + 1], elements[step + 1 :]
    return [*before, replaced(element[0] if element else None, following, value), *after]


def bases(description: dict[str, Any]) -> Iterator[Base]:
    """Yield valid requests to every route that takes a body, of every task."""
    for path, document, further in documents():
        slots = [*((name,) for name in (*members_of(description, path), "surprise")), *further, *paths_in(document)]
        yield Base(path, document, list(dict.fromkeys(slots)))


def documents() -> Iterator[tuple[str, dict[str, Any], list[Path]]]:
    """Yield paths of routes with valid documents, and the further paths of members in these."""
    settings = tuple(ScoreSettings.model_fields)
    score = {"responses": [ROWS[0].response, ROWS[2].response], "references": [ROWS[0].reference]}
    in_config: list[Path] = [("config", name) for name in settings]
    yield NATIVE, score | {"include": ["components", "advantages"], "groups": ["a", "a"]}, in_config
    yield NATIVE, score | {"configs": [{}], "task": "score"}, [("configs", 0, name) for name in settings]
    yield NATIVE, score | {"task": ["score", "score"]}, in_config
    small = [row for row in ROWS if len(row.response) < 10_000]
    of_options = [("config", name, "reward") for name in REWARD_TASKS]
    yield NATIVE, columns(small) | {"config": {}}, [*in_config, *of_options]
    for row in {row.task: row for row in reversed(small) if row.task != "score"}.values():
        task = task_named(row.task)
        places: list[Path] = [("references", 0, name) for name in task.record.model_fields]
        places += [("config", name) for name in task.options.model_fields]
        yield NATIVE, {"task": row.task, "responses": [row.response], "references": [row.reference]}, places
    explained = {"response": ROWS[0].response, "reference": ROWS[0].reference}
    yield "/v1/explain", explained, in_config
    for task in every_task():
        places = [("records", 0, name) for name in task.record.model_fields]
        places += [("options", name) for name in task.options.model_fields]
        record = dict.fromkeys(task.record.model_fields, "[ANSWER_START]x[ANSWER_END]")
        yield "/v1/evaluate", {"task": task.name, "records": [record], "options": {}}, places
    for path, (document, _) in EXAMPLES.items():
        yield path, document, []


def members_of(description: dict[str, Any], path: str) -> list[str]:
    """Return the names of the members that the description of the service has for a route's body."""
    schemas = description["components"]["schemas"]
    schema = description["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    models = [schemas[option["$ref"].rpartition("/")[2]] for option in schema.get("anyOf", [schema])]
    return list(dict.fromkeys(name for model in models for name in model["properties"]))


def body_of(document: Any, slots: Sequence[Path], values: Sequence[str]) -> bytes:
    """Return the JSON of a document with other values, given as JSON, at some paths."""
    for number, slot in enumerate(slots):
        document = replaced(document, slot, PLACE.format(number))
    text = json.dumps(document)
    for number, value in enumerate(values):
        text = text.replace(f'"{PLACE.format(number)}"', value)
    return text.encode()


def singles(description: dict[str, Any]) -> list[OddRequest]:
    """Return a request for every member and value, and one without the member."""
    requests = []
    for path, document, slots in bases(description):
        requests += [OddRequest(path, body_of(document, [slot], [value])) for slot in slots for value in VALUES]
        requests += [
            OddRequest(path, json.dumps({name: document[name] for name in document if name != absent}).encode())
            for absent in document
        ]
        requests += [OddRequest(path, value.encode()) for value in VALUES]
    return requests


def pairs(description: dict[str, Any], count: int, seed: int) -> list[OddRequest]:
    """Return requests with odd values in two members, drawn at random, as many for every base."""
    draw = random.Random(seed)
    sources = list(bases(description))
    requests = []
    for base in sources:
        choices = list(combinations(base.slots, 2))
        requests += [
            OddRequest(base.path, body_of(base.document, slots, draw.choices(VALUES, k=2)))
            for slots in draw.choices(choices, k=count // len(sources) + 1)
        ]
    return requests


def queries(description: dict[str, Any]) -> list[OddRequest]:
    """Return a valid request for every parameter of every route's query and every odd value."""
    requests = []
    sources: dict[str, dict[str, Any]] = {}
    for path, document, _ in documents():
        sources.setdefault(path, document)
    for path, document in sources.items():
        parameters = description["paths"][path]["post"].get("parameters", [])
        names = [parameter["name"] for parameter in parameters if parameter["in"] == "query"]
        names += [f"{task}.reward" for task in REWARD_TASKS] + ["surprise", ""]
        body = json.dumps(document).encode()
        requests += [OddRequest(f"{path}?{name}={value}", body) for name in names for value in QUERY_VALUES]
        requests += [
            OddRequest(f"{path}?task={task}&{name}={value}", body)
            for task in REWARD_TASKS[1:]
            for name in task_named(task).options.model_fields
            for value in ("", "x", "0", "true")
        ]
    return requests


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

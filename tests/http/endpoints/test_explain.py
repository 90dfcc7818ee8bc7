"""POST /v1/explain: the derivation over HTTP, and the errors of invalid requests."""

from __future__ import annotations

import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import given
from pydantic import ValidationError

from assay import InvalidRequest, Scorer
from assay.service.config import load
from assay.service.explain.schema import ExplainRequest, Explanation
from assay.service.http.app import create_app
from assay.service.http.endpoints.evaluate import MAX_BODY_BYTES, decode_explain_request
from assay.service.http.wire.json_codec import Limits
from tests.http.samples import PERFECT, REFERENCE, STEPS, SWAPPED, SWAPPED_REWARD, errors_of, problem_of
from tests.http.wire.test_contract import junk
from tests.servers import running, wait_for
from tests.strategies import examples

REQUEST = {"response": SWAPPED, "reference": REFERENCE}
LIMITS = Limits(64 << 20, 65_536, 262_144)
LONG = "x" * (1 << 21)
SHAPE_REASONS = {"wrong_type", "missing_field", "unknown_field"}


@pytest.mark.parametrize("reference", [REFERENCE, STEPS, PERFECT], ids=["lines", "steps", "answer"])
@pytest.mark.parametrize("config", [{}, {"order": "lcs", "reward_scale": "shift"}], ids=["default", "changed"])
def test_the_numbers_are_those_of_score(client, reference, config):
    reply = client.post("/v1/explain", json={"response": SWAPPED, "reference": reference, "config": config})
    assert reply.status_code == 200, reply.text
    found = Explanation.model_validate_json(reply.content)
    request = {"references": [reference], "responses": [SWAPPED], "config": config, "include": ["components"]}
    scored = client.post("/v1/score", json=request).json()
    assert found.reward == scored["rewards"][0]
    assert found.config_id == scored["config_id"]
    assert found.components.model_dump() == {name: column[0] for name, column in scored["components"].items()}
    assert (found.reference[0].place is None) == isinstance(reference, dict)


def test_suggestions(client):
    found = client.post("/v1/explain", json=REQUEST).json()
    assert found["reward"] == pytest.approx(SWAPPED_REWARD, abs=1e-12)
    assert found["suggestions"][0]["kind"] == "swap_steps"
    assert found["suggestions"][0]["response"].count("Step 1: ") == 2
    assert client.post("/v1/explain", json=REQUEST | {"suggestions": 0}).json()["suggestions"] == []


@pytest.mark.parametrize("encode", [gzip.compress, bytes], ids=["gzip", "identity"])
def test_encodings(client, encode):
    name = "gzip" if encode is gzip.compress else "identity"
    headers = {"content-type": "application/json; charset=utf-8", "content-encoding": name}
    reply = client.post("/v1/explain", content=encode(json.dumps(REQUEST).encode()), headers=headers)
    assert reply.json() == client.post("/v1/explain", json=REQUEST).json()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ([], [("body", "wrong_type")]),
        ({}, [("response", "missing_field"), ("reference", "missing_field")]),
        (REQUEST | {"task": "bioprobench.ord"}, [("task", "unknown_task")]),
        (REQUEST | {"task": ["score"]}, [("task", "wrong_type")]),
        (REQUEST | {"groups": ["a"]}, [("groups", "unknown_field")]),
        (REQUEST | {"response": None}, [("response", "wrong_type")]),
        (REQUEST | {"reference": ["swordfish"]}, [("reference", "wrong_type")]),
        (REQUEST | {"reference": {"steps": []}}, [("reference", "no_steps")]),
        (REQUEST | {"reference": {"steps": [{"action": "swordfish"}]}}, [("reference", "bad_step_schema")]),
        (REQUEST | {"reference": "swordfish"}, [("reference", "bad_step_line")]),
        (REQUEST | {"reference": " " * 300_000}, [("reference", "too_long")]),
        (REQUEST | {"config": []}, [("config", "wrong_type")]),
        (REQUEST | {"suggestions": 21}, [("suggestions", "out_of_range")]),
        (REQUEST | {"suggestions": -1}, [("suggestions", "out_of_range")]),
        (REQUEST | {"suggestions": True}, [("suggestions", "wrong_type")]),
        (
            REQUEST | {"response": "x" * (1 << 21), "config": {"max_response_bytes": 1 << 30}},
            [("config.max_response_bytes", "over_limit")],
        ),
        (
            {"reference": "swordfish", "config": {"order": "swordfish", "nope": 1}, "suggestions": 99},
            [
                ("response", "missing_field"),
                ("suggestions", "out_of_range"),
                ("config.order", "invalid_setting"),
                ("config.nope", "unknown_setting"),
                ("reference", "bad_step_line"),
            ],
        ),
    ],
)
def test_invalid_requests(client, body, found):
    reply = client.post("/v1/explain", json=body)
    assert errors_of(problem_of(reply, 422)) == found
    assert "swordfish" not in reply.text


@pytest.fixture
def generous() -> Iterator[httpx.Client]:
    """Serve an application that accepts longer texts than it explains."""
    with running(create_app(load({"max_steps": 10_000, "max_response_bytes": 1 << 30}, {}))) as client:
        wait_for(client, "/readyz", 200)
        yield client


def test_too_long_for_an_explanation(generous):
    client = generous
    body = REQUEST | {"response": "x" * (1 << 21)}
    assert errors_of(problem_of(client.post("/v1/explain", json=body), 422)) == [("response", "too_long")]
    key = "\n".join(f'Step {k}: {{"action":"a","objects":[],"parameters":[]}}' for k in range(1, 4100))
    response = f"<think></think><key>{key}</key><orc>Step 1: a</orc><note></note>"
    body = {"response": response, "reference": REFERENCE}
    assert errors_of(problem_of(client.post("/v1/explain", json=body), 422)) == [("response", "too_long")]
    body = {"response": PERFECT, "reference": key}
    assert errors_of(problem_of(client.post("/v1/explain", json=body), 422)) == [("reference", "too_long")]
    default = {"config": {"max_steps": 1024}}
    assert client.post("/v1/explain", json=body | {"response": response} | default).status_code == 422
    found = client.post("/v1/explain", json={"response": response, "reference": REFERENCE} | default).json()
    assert (found["reason"], found["prediction"]) == ("too_long", [])


def test_not_a_request(client):
    problem_of(client.post("/v1/explain", content=b"{"), 400)
    problem_of(client.post("/v1/explain", content=b'{"response": "\\ud83d"}'), 400)
    problem_of(client.post("/v1/explain", content=b"x" * (MAX_BODY_BYTES + 1)), 413)
    problem_of(client.post("/v1/explain", json=REQUEST, headers={"content-encoding": "br"}), 415)
    for kind in ("text/plain", "application/vnd.apache.arrow.stream"):
        reply = client.post("/v1/explain", content=b"x", headers={"content-type": kind})
        problem_of(reply, 415)
    assert errors_of(problem_of(client.post("/v1/explain?order=lcs", json=REQUEST), 422)) == [
        ("query", "unknown_field")
    ]
    problem_of(client.post("/v1/explain", json=REQUEST, headers={"x-request-timeout": "1e-9"}), 504)
    problem_of(client.post("/v1/explain", json=REQUEST, headers={"x-request-timeout": "soon"}), 422)
    problem_of(client.get("/v1/explain"), 405)


def test_probes_are_answered_while_a_long_text_is_explained(client):
    """The event loop stays responsive: explanations run on a separate thread."""
    lines = [f'Step {k}: {{"action":"a{k}","objects":["b {k}"],"parameters":["{k} min"]}}' for k in range(1, 1000)]
    key, back = "\n".join(lines), "\n".join(lines[::-1])
    response = f"<think></think><key>{key}</key><orc>{key}</orc><note></note>"
    body = {"response": response, "reference": back, "suggestions": 20}
    replies = []
    thread = threading.Thread(target=lambda: replies.append(client.post("/v1/explain", json=body)))
    thread.start()
    waits = []
    while thread.is_alive():
        started = time.perf_counter()
        assert client.get("/livez").status_code == 200
        waits.append(time.perf_counter() - started)
    thread.join()
    assert replies[0].status_code == 200
    assert len(waits) > 5
    assert sorted(waits)[len(waits) // 2] < replies[0].elapsed.total_seconds() / 3


def test_a_long_list_of_wrong_steps_is_not_an_error_for_each(scorer):
    document = {"response": "", "reference": {"steps": [1] * 1_000_000}}
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest) as caught:
            decode_explain_request(document, scorer, LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert [issue.path for issue in caught.value.issues] == ["reference"]


def test_too_many_fields_are_one_error(scorer):
    with pytest.raises(InvalidRequest) as caught:
        decode_explain_request({str(k): 0 for k in range(100_000)}, scorer, LIMITS)
    assert [(issue.path, issue.reason) for issue in caught.value.issues] == [("body", "too_many")]


@given(junk, junk, junk)
@examples(100)
def test_the_model_and_the_decoder_agree(scorer, one, two, three):
    document = {"response": PERFECT, "reference": REFERENCE}
    for name, value in (("reference", one), ("config", two), ("suggestions", three), ("response", three)):
        changed = document | {name: value}
        try:
            decode_explain_request(changed, scorer, LIMITS)
            found = set()
        except InvalidRequest as error:
            found = {issue.reason for issue in error.issues}
        try:
            ExplainRequest.model_validate(changed)
            refused = False
        except ValidationError:
            refused = True
        if refused:
            assert found
        if found & SHAPE_REASONS:
            assert refused


@pytest.fixture(scope="module")
def scorer():
    return Scorer()

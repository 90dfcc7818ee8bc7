"""No request is scored before the kernels are compiled and have passed the self-test; errors of failures."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from assay.kernels.warmup import warmup
from assay.service.config import Config
from assay.service.http.app import create_app
from assay.service.http.request.readiness import Readiness
from assay.service.rewards import scorer as self_test
from assay.service.scoring import memory
from assay.service.wire import fast_path, json_codec
from assay.service.wire.problems import Problem
from tests.http.process.watching import in_time
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import running, wait_for

PROBES = ("/readyz", "/v2/health/ready", "/health", "/healthz", "/ping")
PATIENT = {
    "/compat/slime": {"prompt": "p", "response": PERFECT, "label": REFERENCE},
    "/compat/nemo-gym/seed_session": {},
    "/compat/nemo-gym/aggregate_metrics": {"verify_responses": []},
}
"""Requests of trainers that would lose a reward: they wait, and get an error if the start fails."""


@pytest.fixture
def gate():
    """Return an event that a warm-up waits for."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_not_ready_until_the_warm_up_is_done(gate):
    def slow():
        assert gate.wait(60)
        return warmup()

    with running(create_app(Config(), warmup=slow)) as client:
        for reply in (*map(client.get, PROBES), client.post("/v1/score", json=REQUEST)):
            problem_of(reply, 503)
            assert int(reply.headers["retry-after"]) >= 1
        for path in ("/livez", "/v2/health/live", "/version", "/v1/config", "/docs", "/openapi.json", "/"):
            assert client.get(path).status_code == 200
        assert "assay_ready 0.0" in client.get("/metrics").text
        assert "assay_compiled_signatures 0.0" in client.get("/metrics").text
        gate.set()
        wait_for(client, "/readyz", 200)
        assert {client.get(path).status_code for path in PROBES} == {200}
        assert client.post("/v1/score", json=REQUEST).status_code == 200
        assert "assay_ready 1.0" in client.get("/metrics").text


def test_trainers_wait_for_a_service_that_starts(gate):
    with running(create_app(warmup=lambda: gate.wait(60))) as client, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(client.post, path, json=body) for path, body in PATIENT.items()]
        time.sleep(0.3)
        assert not any(reply.done() for reply in waiting)
        problem_of(client.get("/compat/nemo-gym"), 503)
        late = client.post("/compat/slime", json=PATIENT["/compat/slime"], headers={"x-request-timeout": "0.2"})
        problem_of(late, 503)
        gate.set()
        assert [reply.result().status_code for reply in waiting] == [200] * 3
        assert waiting[0].result().json()["reward"] == 1.0
        assert client.get("/compat/nemo-gym").status_code == 200


def failure(client: httpx.Client) -> str:
    """Return why the service has failed to become ready."""
    details: list[str] = []

    def failed() -> bool:
        details.append(problem_of(client.get("/readyz"), 503)["detail"])
        return "failed" in details[-1]

    assert in_time(failed), details[-1]
    return details[-1]


def test_a_failing_warm_up_is_reported_and_never_ready(caplog):
    def broken():
        raise OSError("the cache is full")

    with running(create_app(Config(), warmup=broken)) as client:
        assert "OSError" in failure(client)
        for path, body in {"/v1/score": REQUEST, **PATIENT}.items():
            assert "OSError" in problem_of(client.post(path, json=body), 503)["detail"]
        assert client.get("/livez").status_code == 200
    assert "the cache is full" in caplog.text


def test_wrong_rewards_of_the_self_test_keep_the_service_from_being_ready(monkeypatch, caplog):
    (response, reward, reason), *rest = self_test.EXPECTED
    monkeypatch.setattr(self_test, "EXPECTED", ((response, reward - 1e-6, reason), *rest))
    with running(create_app(Config())) as client:
        assert "SelfTestFailed" in failure(client)
    assert "self-test response 0" in caplog.text


def wrecked(*_arguments):
    """Fail with a text of the request in the message, which the logged line of code does not contain."""
    raise ZeroDivisionError("".join(("sec", "ret")))


@pytest.fixture(scope="module")
def ready() -> Iterator[httpx.Client]:
    """Serve an application in this process, whose functions the tests replace."""
    with running(create_app(Config())) as client:
        wait_for(client, "/readyz", 200)
        yield client


@pytest.mark.parametrize("copies", [1, 400], ids=["on the loop", "in a thread"])
def test_an_unexpected_error_is_500(ready, monkeypatch, caplog, copies):
    for module in (fast_path, json_codec):
        monkeypatch.setattr(module, "encode", wrecked)
    request = {"references": [REFERENCE], "responses": [PERFECT] * copies}
    reply = ready.post("/v1/score", json=request, headers={"x-request-id": "find-me"})
    problem_of(reply, 500)
    monkeypatch.undo()
    assert ready.post("/v1/score", json=request).status_code == 200
    assert 'code="500"' in ready.get("/metrics").text
    assert "secret" not in caplog.text + reply.text
    for part in ("find-me", "ZeroDivisionError", "endpoints/score.py"):
        assert part in caplog.text


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
@pytest.mark.parametrize("column", ["rewards", "components", "advantages"])
def test_a_number_that_is_not_finite_is_never_sent(ready, monkeypatch, column, value):
    def spoiled(scores, *arguments):
        if column == "rewards":
            scores.rewards[0] = value
        elif column == "components":
            scores.measures[3, 0] = value
        else:
            monkeypatch.setattr(type(scores), "advantages", lambda self: self.rewards + value)
        return encode(scores, *arguments)

    encode = json_codec.encode
    monkeypatch.setattr(json_codec, "encode", spoiled)
    problem_of(ready.post("/v1/score", json=REQUEST | {"include": ["components", "advantages"]}), 500)


def refuse_memory(*_arguments):
    raise MemoryError


@pytest.mark.attack
@pytest.mark.parametrize("responses", [[PERFECT], [PERFECT, "x" * 100_000]], ids=["on the loop", "in a thread"])
def test_a_failed_allocation_is_503_for_the_request_that_needs_it(ready, monkeypatch, caplog, responses):
    document = {"references": [REFERENCE], "responses": responses, "config": {"order": "lcs"}}
    with monkeypatch.context() as refusing, caplog.at_level(logging.ERROR, "assay"):
        refusing.setattr(memory, "allocate_memory", refuse_memory)
        refusing.setattr(memory, "_kept", [])
        reply = ready.post("/v1/score", json=document)
    assert problem_of(reply, 503)["type"].endswith("#problem-out-of-memory")
    assert int(reply.headers["retry-after"]) >= 1
    assert "MemoryError" in caplog.text
    assert ready.post("/v1/score", json=document).json()["rewards"][0] == 1.0


@pytest.mark.parametrize(
    ("state", "said"),
    [(None, "The kernels are being loaded."), ((3, 9), "The kernels are being compiled: 3 of 9 functions.")],
)
def test_a_warm_start_does_not_say_that_it_compiles(monkeypatch, state, said) -> None:
    monkeypatch.setattr("assay.service.http.request.readiness.compiling", lambda: state)
    with pytest.raises(Problem) as caught:
        Readiness().check()
    assert caught.value.detail == said

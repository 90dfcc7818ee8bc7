"""No request is scored before the kernels are compiled and have passed the self-test; errors of failures."""

from __future__ import annotations

import logging
import threading

import pytest

from assay import Scorer
from assay.kernels.warmup import warmup
from assay.service.config import Config, ServerSettings
from assay.service.errors import Issue
from assay.service.http import state
from assay.service.http.app import create_app
from assay.service.http.endpoints import score
from assay.service.http.request import exchange as readiness
from assay.service.http.wire import json_codec
from assay.service.http.wire.headers import Problem
from assay.service.rewards import scorer as self_test
from assay.service.rewards.batch import Batch
from tests.http.samples import PERFECT, REFERENCE, REQUEST, problem_of
from tests.servers import running, wait_for


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
        for path in ("/readyz", "/v2/health/ready", "/health", "/healthz", "/ping"):
            reply = client.get(path)
            problem_of(reply, 503)
            assert int(reply.headers["retry-after"]) >= 1
        reply = client.post("/v1/score", json=REQUEST)
        problem_of(reply, 503)
        assert int(reply.headers["retry-after"]) >= 1
        for path in ("/livez", "/v2/health/live", "/version", "/v1/config", "/docs", "/openapi.json", "/"):
            assert client.get(path).status_code == 200
        assert "assay_ready 0.0" in client.get("/metrics").text
        assert "assay_compiled_signatures 0.0" in client.get("/metrics").text
        gate.set()
        wait_for(client, "/readyz", 200)
        for path in ("/v2/health/ready", "/health", "/healthz", "/ping"):
            assert client.get(path).status_code == 200
        assert client.post("/v1/score", json=REQUEST).status_code == 200
        assert "assay_ready 1.0" in client.get("/metrics").text


@pytest.mark.parametrize(("compiled", "more"), [((0, 191), "."), ((120, 191), ": 120 of 191 functions.")])
def test_the_problem_tells_how_many_functions_are_compiled(monkeypatch, compiled, more):
    monkeypatch.setattr(readiness, "progress", lambda: compiled)
    with pytest.raises(Problem) as raised:
        readiness.Readiness().check()
    assert raised.value.detail == f"The kernels are being compiled{more}"


def test_a_failing_warm_up_is_reported_and_never_ready(caplog):
    def broken():
        raise OSError("the cache is full")

    with running(create_app(Config(), warmup=broken)) as client:
        reply = wait_for_failure(client)
        assert "OSError" in problem_of(reply, 503)["detail"]
        problem_of(client.post("/v1/score", json=REQUEST), 503)
        assert client.get("/livez").status_code == 200
    assert "the cache is full" in caplog.text


def wait_for_failure(client):
    for _ in range(1000):
        reply = client.get("/readyz")
        if "failed" in reply.text:
            return reply
    raise AssertionError(reply.text)


def test_wrong_rewards_of_the_self_test_keep_the_service_from_being_ready(monkeypatch, caplog):
    (response, reward, reason), *rest = self_test.EXPECTED
    monkeypatch.setattr(self_test, "EXPECTED", ((response, reward - 1e-6, reason), *rest))
    with running(create_app(Config())) as client:
        assert "SelfTestFailed" in problem_of(wait_for_failure(client), 503)["detail"]
    assert "self-test response 0" in caplog.text


def test_the_self_test_passes_with_any_defaults():
    self_test.run_self_test()


class Wrecked:
    """Fails with the request's text in its message."""

    def __init__(self, error: type[Exception]) -> None:
        self.error = error
        self.message = "".join(("sec", "ret"))  # so that the logged line of code does not contain it

    def __call__(self, *_arguments):
        raise self.error(self.message)


@pytest.mark.parametrize("copies", [1, 400], ids=["on the loop", "in a thread"])
def test_an_unexpected_error_is_500(monkeypatch, caplog, copies):
    app = create_app(Config())
    with running(app) as client:
        wait_for(client, "/readyz", 200)
        for module in (score, json_codec):
            monkeypatch.setattr(module, "encode", Wrecked(ZeroDivisionError))
        request = {"references": [REFERENCE], "responses": [PERFECT] * copies}
        reply = client.post("/v1/score", json=request, headers={"x-request-id": "find-me"})
        problem_of(reply, 500)
        monkeypatch.undo()
        assert client.post("/v1/score", json=request).status_code == 200
        assert 'code="500"' in client.get("/metrics").text
    assert "secret" not in caplog.text + reply.text
    assert "find-me" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    assert "endpoints/score.py" in caplog.text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("column", ["rewards", "components", "advantages"])
def test_a_number_that_is_not_finite_is_never_sent(monkeypatch, value, column):
    def spoiled(scores, *arguments):
        if column == "rewards":
            scores.rewards[0] = value
        elif column == "components":
            scores.measures[3, 0] = value
        else:
            monkeypatch.setattr(type(scores), "advantages", lambda self: self.rewards + value)
        return encode(scores, *arguments)

    encode = json_codec.encode
    app = create_app(Config())
    with running(app) as client:
        wait_for(client, "/readyz", 200)
        monkeypatch.setattr(json_codec, "encode", spoiled)
        problem_of(client.post("/v1/score", json=REQUEST | {"include": ["components", "advantages"]}), 500)


def test_issues_of_decoding_are_reported(monkeypatch):
    app = create_app(Config())
    issue = Issue("somewhere", "unforeseen", "something")

    def refuse(*_arguments):
        return Batch(configurations={"config": Scorer().columns}, issues=[issue])

    with running(app) as client:
        wait_for(client, "/readyz", 200)
        monkeypatch.setattr(score, "read_batch", refuse)
        document = problem_of(client.post("/v1/score", json=REQUEST | {"config": {"order": "lcs"}}), 422)
    assert document["errors"] == [issue._asdict()]


def test_two_applications_share_nothing():
    first, second = create_app(Config()), create_app(Config(ServerSettings(api_keys=["key"])))
    with running(first) as one, running(second) as other:
        wait_for(one, "/readyz", 200)
        wait_for(other, "/readyz", 200)
        assert one.post("/v1/score", json=REQUEST).status_code == 200
        problem_of(other.post("/v1/score", json=REQUEST), 401)
        assert 'route="/v1/score"' in one.get("/metrics").text
        assert 'code="200",le="0.001",route="/v1/score"' not in other.get("/metrics").text


def test_metrics_do_not_fail_before_anything_is_compiled(caplog):
    with running(create_app(Config(), warmup=lambda: threading.Event().wait(0.3))) as client:
        assert client.get("/metrics").status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert state.VERSION  # type: ignore[attr-defined]

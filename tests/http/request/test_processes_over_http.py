"""Evaluations and other tasks over HTTP: they end in time, do not delay the service, and leave no process."""

from __future__ import annotations

import gzip
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx
import orjson
import psutil
import pytest

from tests.http.limits.posting import JSON
from tests.http.samples import errors_of, problem_of
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

GYM = "/compat/nemo-gym/aggregate_metrics"

PQA = {"task": "bioprobench.pqa", "records": [{"answer": "a", "generated_response": "[ANSWER_START]a&9[ANSWER_END]"}]}
PROGRAM = "f(a=1, b=[2, 3])\n" * 8_000
"""A reference of maximum length: Python's parser takes a third of a second for it."""

SHORT_PROGRAMS = orjson.dumps({"task": "bioplanner", "references": [PROGRAM], "responses": ["f()"] * 3})
LONG_PROGRAMS = orjson.dumps({"task": "bioplanner", "references": [PROGRAM], "responses": [PROGRAM] * 100})


@pytest.fixture(scope="module")
def own() -> Iterator[LiveServer]:
    """Start a server for these tests alone, with its processes."""
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        assert post(server, "/v1/evaluate", PQA).status_code == 200
        assert post(server, "/v1/score", SHORT_PROGRAMS).status_code == 200
        yield server


def descendants(pid: int) -> set[psutil.Process]:
    return set(psutil.Process(pid).children(recursive=True))


def post(server: LiveServer, path: str, body: Any, **headers: str) -> httpx.Response:
    """Send a document or bytes; underscores in the names of headers stand for hyphens."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with server.client() as client:
        return client.post(path, content=content, headers=JSON | names)


SCORE_REFERENCE = 'Step 1: {"action": "a", "objects": ["b"], "parameters": []}'
SCORE_RESPONSE = f"<think>t</think><key>{SCORE_REFERENCE}</key><orc>Step 1: a b</orc><note>n</note>"


def test_rows_without_time_cost_rows_of_score_nothing(own):
    """Send programs that take half a minute beside rows of SCORE: these keep their rewards, at once known."""
    body = {
        "task": ["score"] * 61 + ["bioplanner"] * 100 + ["bioprobench.err"] * 2,
        "responses": [SCORE_RESPONSE] * 61 + [PROGRAM] * 100 + ["[ANSWER_START]True[ANSWER_END]"] * 2,
        "references": [SCORE_REFERENCE, PROGRAM, True],
        "reference_index": [0] * 61 + [1] * 100 + [2] * 2,
        "include": ["advantages"],
    }
    with own.client() as client:
        counts = reward_counts(client)
        began = time.perf_counter()
        reply = client.post("/v1/score", json=body, headers={"x-request-timeout": "4"})
        took = time.perf_counter() - began
        late = client.post("/v1/score", json=body, headers={"x-request-timeout": "0.3"})
        counts = [after - before for before, after in zip(counts, reward_counts(client), strict=True)]
    assert (reply.status_code, late.status_code) == (200, 200), reply.text
    assert took < 4.5
    for answer in (reply.json(), late.json()):
        assert answer["rewards"][:61] == [1.0] * 61
        assert answer["reasons"][:61] == ["ok"] * 61
        others = list(zip(answer["reasons"][61:], answer["rewards"][61:], strict=True))
        assert set(others) <= {("ok", 1.0), ("out_of_time", 0.0)}
        assert ("out_of_time", 0.0) in others
        assert answer["advantages"][61:] == [0.0] * 102
    assert reply.json()["reasons"].count("ok") > 61  # programs that were scored in time
    reasons = reply.json()["reasons"][61:161] + late.json()["reasons"][61:161]
    assert counts == [reasons.count("ok"), reasons.count("out_of_time")]


def reward_counts(client: httpx.Client) -> list[float]:
    """Return how many rewards of programs the metrics have counted, and how many programs there was no time for."""
    text = client.get("/metrics").text
    labels = 'run="unnamed",task="bioplanner"'
    names = (f"assay_reward_count{{{labels}}}", f'assay_responses_total{{reason="out_of_time",{labels}}}')
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines())
    return [float(lines.get(name, 0)) for name in names]


def test_few_short_rows_need_no_process_but_compressed_ones_and_explanations_do(fresh_server):
    body = {"task": "bioprobench.err", "references": [True], "responses": ["[ANSWER_START]True[ANSWER_END]", "("]}
    pid = fresh_server.process.pid
    idle = descendants(pid)
    plain = post(fresh_server, "/v1/score", body)
    assert plain.json()["rewards"] == [1, 0]
    assert descendants(pid) == idle
    packed = post(fresh_server, "/v1/score", gzip.compress(orjson.dumps(body)), content_encoding="gzip")
    assert packed.content == plain.content
    rewarding = descendants(pid)
    assert rewarding > idle
    explained = post(fresh_server, "/v1/explain", {"response": SCORE_RESPONSE, "reference": SCORE_REFERENCE})
    assert explained.json()["reward"] == 1.0
    assert descendants(pid) > rewarding


def test_bytes_of_references_are_counted_per_response(own):
    body = {"task": "lexical", "references": ["word " * 20_000], "responses": ["word"] * 20_000}
    reply = post(own, "/v1/score", body)
    assert errors_of(problem_of(reply, 413)) == [("reference_index", "too_much_to_compare")]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(flags, number):
    with launched("--drain-seconds", "0", *flags) as server, ThreadPoolExecutor(1) as pool:
        server.wait_until_ready()
        for _ in range(8):
            assert post(server, "/v1/evaluate", PQA).status_code == 200
            assert post(server, GYM, {"verify_responses": [{"reward": 1}]}).status_code == 200
        started = descendants(server.process.pid)
        assert len(started) >= 2
        asking = pool.submit(post, server, "/v1/score", LONG_PROGRAMS, x_request_timeout="3")
        time.sleep(1)
        started |= descendants(server.process.pid)
        server.process.send_signal(number)
        server.process.wait(60)
        with suppress(httpx.TransportError):  # the request takes longer than the service lives
            asking.result()
        _, alive = psutil.wait_procs(started, 60)
        assert not alive

"""Under load: the event loop stays responsive, deadlines hold, and the queue is bounded."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay import Scorer
from tests.http.raw_connection import RawConnection, head
from tests.http.samples import PERFECT, REFERENCE, REQUEST, REWARDS, errors_of, problem_of
from tests.servers import ready


@pytest.mark.attack
def test_other_routes_answer_while_a_big_batch_is_scored(server, client, batch):
    answers = 0
    with ThreadPoolExecutor(1) as pool, server.client() as other:
        for _ in range(5):  # if this process stands still while the batch is scored, it sees only the end of it
            answers = 0
            running = pool.submit(other.post, "/v1/score", content=batch)
            while not running.done():
                single = client.post("/v1/score", json=REQUEST)
                assert client.get("/livez").status_code == 200
                answers += 1
                assert single.json()["rewards"] == pytest.approx(REWARDS, abs=1e-12)
            reply = running.result()
            if answers >= 3:
                break
    assert answers >= 3
    request = json.loads(batch)
    expected = Scorer().score(request["responses"], request["references"], request["reference_index"])
    assert reply.json()["rewards"] == expected.rewards.tolist()


@pytest.mark.attack
def test_concurrent_requests_get_their_own_rewards(server, rollout_request):
    """Also while others are refused."""
    requests = [rollout_request(6, 5, seed) for seed in range(24)]
    scorer = Scorer()
    with server.client() as client, ThreadPoolExecutor(12) as pool:
        invalid = {"references": ["?"], "responses": [PERFECT]}
        refused = [pool.submit(client.post, "/v1/score", json=invalid) for _ in requests]
        replies = list(pool.map(lambda request: client.post("/v1/score", json=request).json(), requests))
        assert {reply.result().status_code for reply in refused} == {422}
    for request, reply in zip(requests, replies, strict=True):
        expected = scorer.score(request["responses"], request["references"], request["reference_index"])
        assert reply["rewards"] == expected.rewards.tolist()
        assert reply["reasons"] == expected.reasons.tolist()


def test_an_invalid_timeout(client):
    for timeout in ("", "0", "-1", "nan", "inf", "soon", "1,5"):
        document = problem_of(client.post("/v1/score", json=REQUEST, headers={"x-request-timeout": timeout}), 422)
        assert errors_of(document) == [("X-Request-Timeout", "invalid_header")]
    assert client.post("/v1/score", json=REQUEST, headers={"x-request-timeout": "1e9"}).status_code == 200


@pytest.mark.attack
def test_a_body_that_does_not_arrive_by_the_deadline(server):
    """However late the service looks at the request: its client never sends the end."""
    with RawConnection(server.url) as connection:
        connection.send(head("Transfer-Encoding: chunked", "X-Request-Timeout: 0.2") + b'10\r\n{"references": [\r\n')
        reply = connection.reply()
    assert (reply.status, reply.json()["type"]) == (504, "/docs#problem-deadline")


@pytest.mark.attack
def test_the_queue_is_bounded():
    """One thread and a queue of one: of many batches at once some are refused, and all others scored.

    Probes are not: a service that is only busy must not be restarted.
    """
    body = json.dumps({"references": [REFERENCE], "responses": [PERFECT] * 4000}).encode()
    flags = ("--threads", "1", "--max-queued", "1")
    with ready(*flags) as server, server.client() as client, ThreadPoolExecutor(16) as pool:
        running = [pool.submit(client.post, "/v1/score", content=body) for _ in range(32)]
        with server.client() as prober:
            while not all(task.done() for task in running):
                for path in ("/readyz", "/health", "/healthz", "/ping", "/livez"):
                    assert prober.get(path).status_code == 200
        replies = [task.result() for task in running]
        assert {reply.status_code for reply in replies} == {200, 429}
        for reply in replies:
            if reply.status_code == 429:
                problem_of(reply, 429)
                assert int(reply.headers["retry-after"]) >= 1
            else:
                assert reply.json()["rewards"] == [1.0] * 4000
        assert client.post("/v1/score", content=body).status_code == 200

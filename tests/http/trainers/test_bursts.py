"""Bursts of hundreds of single rollouts, as trainers send them: each gets its own reward."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay import Scorer
from tests.http.raw_connection import RawConnection
from tests.http.raw_connection import post as request_of
from tests.http.trainers.trainer_bytes import EOS, OPENRLHF, PROMPT, openrlhf


@pytest.fixture(scope="module")
def rollouts(rollout_request):
    """Return (body for OpenRLHF, reward) of 320 rollouts, every third with a truncated prompt."""
    request = rollout_request(64, 5, seed=5)
    scores = Scorer().score(request["responses"], request["references"], request["reference_index"])
    labels = [request["references"][k] for k in request["reference_index"]]
    return [
        (json.dumps(openrlhf([response + EOS], [label], PROMPT, 0 if k % 3 else 40)).encode(), reward)
        for k, (response, label, reward) in enumerate(
            zip(request["responses"], labels, scores.rewards.tolist(), strict=True)
        )
    ]


def test_a_connection_for_every_rollout(server, rollouts):
    """640 requests at once, as OpenRLHF sends them."""
    connections = [RawConnection(server.url) for _ in rollouts * 2]
    for connection, (body, _) in zip(connections, rollouts * 2, strict=True):
        connection.send(request_of(body, path=OPENRLHF))
    for connection, (_, reward) in zip(connections, rollouts * 2, strict=True):
        reply = connection.reply()
        assert (reply.status, reply.json()["rewards"], reply.json()["scores"]) == (200, [reward], [reward])
        connection.close()


def test_queries_do_not_share_their_settings(server, rollouts):
    """Requests with different settings on forty connections, which use the same memory."""
    bodies = [body for body, _ in rollouts[:60]]
    urls = [OPENRLHF, f"{OPENRLHF}?order=lcs", f"{OPENRLHF}?reward_scale=raw&semantics=product"]
    with server.client() as client, ThreadPoolExecutor(40) as pool:
        alone = [client.post(url, content=body).json() for body in bodies for url in urls]
        both = [(url, body) for body in bodies for url in urls]
        assert list(pool.map(lambda pair: client.post(pair[0], content=pair[1]).json(), both)) == alone
        replies = pool.map(lambda rollout: client.post(OPENRLHF, content=rollout[0]), rollouts)
        assert [reply.json()["rewards"] for reply in replies] == [[reward] for _, reward in rollouts]
    assert len({str(alone[n :: len(urls)]) for n in range(len(urls))}) == len(urls)

"""Bursts of hundreds of single rollouts, as trainers send them: each gets its own reward."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from assay import Scorer
from tests.http.trainers.trainer_bytes import EOS, PROMPT, by_aiohttp


@pytest.fixture(scope="module")
def rollouts(rollout_request):
    """Return (body for OpenRLHF, reward) of 320 rollouts, every third with a truncated prompt."""
    request = rollout_request(64, 5, seed=5)
    scores = Scorer().score(request["responses"], request["references"], request["reference_index"])
    found = []
    for k, (response, reward) in enumerate(zip(request["responses"], scores.rewards.tolist(), strict=True)):
        query = PROMPT[40 if k % 3 == 0 else 0 :] + response + EOS
        label = request["references"][request["reference_index"][k]]
        found.append((by_aiohttp({"query": [query], "prompts": [PROMPT], "labels": [label]}), reward))
    return found


async def one_connection(host: str, port: int, body: bytes) -> Any:
    """Send one request on a separate connection, as OpenRLHF does."""
    reader, writer = await asyncio.open_connection(host, port)
    head = f"POST /compat/openrlhf HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    status = (await reader.readline()).split()[1]
    length = 0
    while line := (await reader.readline()).strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    reply = await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
    return int(status), json.loads(reply)


def test_a_connection_for_every_rollout(server, rollouts):
    """640 requests at once."""
    host, port = server.url.removeprefix("http://").split(":")

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(one_connection(host, int(port), body) for body, _ in rollouts * 2))

    for (status, reply), (_, reward) in zip(asyncio.run(all_at_once()), rollouts * 2, strict=True):
        assert status == 200
        assert reply["rewards"] == reply["scores"] == [reward]


def test_forty_persistent_connections(server, rollouts):
    with server.client() as client, ThreadPoolExecutor(40) as pool:
        replies = pool.map(lambda rollout: client.post("/compat/openrlhf", content=rollout[0]), rollouts)
        assert [reply.json()["rewards"] for reply in replies] == [[reward] for _, reward in rollouts]


def test_queries_do_not_share_their_settings(server, rollouts):
    """Requests with different settings, sequential and concurrent, use the same memory."""
    bodies = [body for body, _ in rollouts[:60]]
    urls = ["/compat/openrlhf", "/compat/openrlhf?order=lcs", "/compat/openrlhf?reward_scale=raw&semantics=product"]
    with server.client() as client, ThreadPoolExecutor(8) as pool:
        alone = {url: [client.post(url, content=body).json() for body in bodies] for url in urls}
        mixed = [(url, body) for body in bodies for url in urls]
        replies = list(pool.map(lambda pair: client.post(pair[0], content=pair[1]).json(), mixed))
    for k in range(len(bodies)):
        for n, url in enumerate(urls):
            assert replies[k * len(urls) + n] == alone[url][k]
    assert len({str(replies) for replies in alone.values()}) == len(urls)

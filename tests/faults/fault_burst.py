"""A whole step at once: 5,120 connections with one response each beside 40 batches of 17 MB."""

from __future__ import annotations

import asyncio
from collections import Counter
from time import perf_counter

import orjson
import pytest

from assay import Scorer
from tests.faults.storm import Answer, Watch, check_settled, fetch, fetch_all, peak, request, resident
from tests.servers import ready

pytestmark = pytest.mark.attack

SINGLES, BATCHES = 5_120, 40
WORK_BYTES = 64 << 20
CEILING = 7 * WORK_BYTES
"""Bytes over an idle service: each byte in work may take six, and connections and replies want some."""

OPENRLHF_TRIES, OPENRLHF_PAUSE, OPENRLHF_TIMEOUT = 5, 1.0, 180.0
"""What OpenRLHF's client does: five tries, a second apart, whatever the reply says."""


def test_only_right_answers_and_refusals(batch, batch_body, singles, rewards):
    expected = Scorer().score(batch["responses"], batch["references"], batch["reference_index"]).rewards.tolist()
    bodies = [orjson.dumps(single) for single in singles]
    with ready("--max-work-bytes", str(WORK_BYTES)) as server:
        idle = resident(server.process.pid)

        async def burst() -> tuple[list[Answer], list[Answer]]:
            small = [request(bodies[k % len(bodies)]) for k in range(SINGLES)]
            answers = await fetch_all(server.url, [*[request(batch_body)] * BATCHES, *small])
            return answers[BATCHES:], answers[:BATCHES]

        started = perf_counter()
        with Watch(server, bodies[0], rewards[0]) as watch:
            small, large = asyncio.run(burst())
        seconds = perf_counter() - started
        highest = peak(server.process.pid) - idle
        check_settled(server)
    print(
        f"\n{seconds:.1f} s; singles {Counter(a.status for a in small)}, batches {Counter(a.status for a in large)}, "
        f"peak {highest / 2**20:.0f} MiB over {idle / 2**20:.0f}, livez at most {1e3 * max(watch.live):.0f} ms"
    )
    for k, answer in enumerate(small):
        if answer.status == 200:
            assert answer.json()["rewards"] == [rewards[k % len(rewards)]]
    for answer in large:
        if answer.status == 200:
            assert answer.json()["rewards"] == expected
    for answer in (*small, *large):
        assert answer.status in (200, 429, 503), answer
        assert answer.status == 200 or int(answer.headers["retry-after"]) >= 1
    assert sum(answer.status == 200 for answer in large) >= 3
    assert highest < CEILING
    assert not watch.failures


def test_openrlhf_misses_no_reward(singles, rewards, batch_body):
    """With that client's own rule of retries, and a budget so small that others would be refused."""
    asked = [
        orjson.dumps({"query": ["Q: " + single["responses"][0]], "prompts": ["Q: "], "labels": single["references"]})
        for single in singles
    ]
    with ready("--max-work-bytes", str(WORK_BYTES), "--max-queued-bytes", "0") as server:

        async def reward(k: int) -> float | None:
            for attempt in range(OPENRLHF_TRIES):
                if attempt:
                    await asyncio.sleep(OPENRLHF_PAUSE)
                data = request(asked[k % len(asked)], "/compat/openrlhf")
                answer = await fetch(server.url, data, OPENRLHF_TIMEOUT)
                if answer.status == 200:
                    return answer.json()["rewards"][0]
            return None

        async def burst() -> tuple[list[float | None], list[Answer]]:
            batches = [asyncio.create_task(fetch(server.url, request(batch_body))) for _ in range(BATCHES)]
            outcomes = await asyncio.gather(*(reward(k) for k in range(SINGLES)))
            return outcomes, await asyncio.gather(*batches)

        started = perf_counter()
        single_rewards, batches = asyncio.run(burst())
    statuses = Counter(answer.status for answer in batches)
    print(f"\n{perf_counter() - started:.1f} s; missing {single_rewards.count(None)}; batches beside them {statuses}")
    assert single_rewards == [rewards[k % len(rewards)] for k in range(SINGLES)]
    assert set(statuses) <= {200, 429}

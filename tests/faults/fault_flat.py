"""Minutes of mixed work of many runs, with wrong requests and departures: memory and latency stay flat."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import time
from collections import Counter
from typing import Any

import numpy as np
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from assay import Scorer
from examples.rollouts import as_request, generate
from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.faults.storm import Watch, check_settled, fetch, request, resident
from tests.servers import ready

pytestmark = pytest.mark.attack

SECONDS = float(os.environ.get("ASSAY_SOAK_SECONDS", "240"))
RESPONSES = int(os.environ.get("ASSAY_MILLION", "1000000"))
WARM_UP = 0.4
"""Share of the time, or of the responses, until pools, caches and the allocator have what they need."""

ALLOWED = 0.05
"""Growth of the resident size from the first half after the warm-up to the second, as a share."""

AS_DEPLOYED = {"MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in deploy/: without it, glibc keeps what the largest batches together have ever needed, and gets there slowly."""

NAMES = 1000
CLIENTS = 4
MIXED_EVERY = 200
"""One request in this many has rows of other tasks, which separate processes score."""


def check_flat(sizes: list[tuple[float, int]]) -> None:
    """Check (progress, resident bytes) after the warm-up."""
    progress, resident_sizes = (np.array(column, float) for column in zip(*sizes, strict=True))
    progress = (progress - progress[0]) / (progress[-1] - progress[0])
    half = progress > (1 + WARM_UP) / 2
    first, second = np.median(resident_sizes[(progress > WARM_UP) & ~half]), np.median(resident_sizes[half])
    print(
        f"\nresident {resident_sizes[0] / 2**20:.1f} MiB at first, after the warm-up {first / 2**20:.1f} "
        f"then {second / 2**20:.1f} MiB"
    )
    assert second < (1 + ALLOWED) * first


class Traffic:
    """Batches, singles, mixed tasks and wrong requests of many runs, and how many responses were scored."""

    def __init__(self, url: str, singles: list[dict[str, Any]]) -> None:
        self.url = url
        self.scored = 0
        self.statuses: Counter[int] = Counter()
        self._singles = [orjson.dumps(single) for single in singles]
        self._batches = [orjson.dumps(as_request(generate(count, 5, count))) for count in (40, 100, 200)]
        self._sizes = [200, 500, 1000]
        self._mixed = orjson.dumps(columns() | {"config": OPTIONS})

    def choose(self, dice: random.Random, number: int) -> tuple[bytes, int]:
        """Return a body, and how many responses it has if it is right."""
        if number % MIXED_EVERY == 0:
            return self._mixed, len(ROWS)
        chance = dice.random()
        if chance < 0.25:
            k = dice.randrange(len(self._batches))
            return self._batches[k], self._sizes[k]
        single = dice.choice(self._singles)
        return (single, 1) if chance < 0.9 else (single[:-5] + b"?????", 0)

    async def send(self, seed: int) -> None:
        """Send requests over one connection until there are enough responses."""
        dice, number = random.Random(seed), seed
        host, _, port = self.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 20)
        while self.scored < RESPONSES:
            body, responses = self.choose(dice, number)
            number += 1
            writer.write(request(body, "/v1/score", f"X-Assay-Run: run {dice.randrange(NAMES)}", keep=True))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
            status = int(head.split()[1])
            self.statuses[status] += 1
            self.scored += responses if status == 200 else 0
        writer.close()


def test_a_service_with_many_runs_stays_flat(singles):
    """1,000 names of runs, 32 in labels of metrics; a tenth of the requests is refused."""
    sizes: list[tuple[float, int]] = []
    with ready(environ=AS_DEPLOYED) as server:
        traffic = Traffic(server.url, singles)

        async def watch() -> None:
            clients = [asyncio.create_task(traffic.send(seed)) for seed in range(CLIENTS)]
            while traffic.scored < RESPONSES and not any(client.done() for client in clients):
                sizes.append((traffic.scored, resident(server.process.pid)))
                await asyncio.sleep(0.5)
            await asyncio.gather(*clients)

        asyncio.run(watch())
        sizes.append((traffic.scored, resident(server.process.pid)))
        check_settled(server)
        with server.client() as client:
            families = parse_text(client.get("/metrics").text)
            samples = [sample for family in families for sample in family.samples]
    print(f"\n{traffic.statuses}, {len(samples)} series", end="")
    check_flat(sizes)
    assert sum(sample.value for sample in samples if sample.name == "assay_reward_count") == traffic.scored
    assert traffic.statuses.keys() == {200, 400}


def test_a_scorer_stays_flat():
    scorer, dice = Scorer(), random.Random(3)
    batches = [as_request(generate(count, 5, count)) for count in (1, 20, 200, 400)]
    sizes: list[tuple[float, int]] = []
    scored = 0
    while scored < RESPONSES:
        batch = dice.choice(batches)
        scores = scorer.score(batch["responses"], batch["references"], batch["reference_index"])
        assert len(scores.rewards) == len(scores.reasons) == len(scores.advantages()) == len(batch["responses"])
        scored += len(scores)
        sizes.append((scored, resident(os.getpid())))
    check_flat(sizes)


@pytest.mark.soak
def test_memory_and_latency_stay_flat(singles, rewards, batch_body):
    bodies = [orjson.dumps(single) for single in singles]
    medium = [orjson.dumps(as_request(generate(40, 5, seed))) for seed in range(8)]
    sizes: list[tuple[float, int]] = []
    statuses: Counter[int] = Counter()
    with ready(environ=AS_DEPLOYED) as server:

        async def client(dice: random.Random, end: float) -> None:
            while time.monotonic() < end:
                chance = dice.random()
                if chance < 0.02:
                    data = request(batch_body)
                elif chance < 0.2:
                    data = request(dice.choice(medium))
                elif chance < 0.25:
                    data = request(gzip.compress(dice.choice(medium), 1), "/v1/score", "Content-Encoding: gzip")
                elif chance < 0.3:
                    data = request(dice.choice(bodies)[:-5] + b"?????")
                elif chance < 0.35:
                    data = request(dice.choice(medium), "/v1/score", "X-Request-Timeout: 0.005")
                else:
                    data = request(dice.choice(bodies))
                patience = 0.01 if dice.random() < 0.03 else 60.0
                statuses[(await fetch(server.url, data, patience)).status] += 1

        async def soak() -> None:
            end = time.monotonic() + SECONDS
            clients = [asyncio.create_task(client(random.Random(k), end)) for k in range(6)]
            while time.monotonic() < end:
                sizes.append((time.monotonic(), resident(server.process.pid)))
                await asyncio.sleep(0.5)
            await asyncio.gather(*clients)

        with Watch(server, bodies[0], rewards[0], pause=0.05) as watch:
            asyncio.run(soak())
        check_settled(server)
    waits = np.array(watch.waits[int(WARM_UP * len(watch.waits)) :])
    early, late = (float(np.median(half)) for half in np.array_split(waits, 2))
    quantile = np.quantile(waits, 0.99)
    print(f"\n{statuses}; single {1e3 * early:.1f} then {1e3 * late:.1f} ms, p99 {1e3 * quantile:.0f} ms", end="")
    check_flat(sizes)
    assert late < 2 * early + 0.005
    assert not watch.failures
    assert statuses.keys() <= {0, 200, 400, 429, 504}

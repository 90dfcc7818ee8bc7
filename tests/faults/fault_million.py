"""One million responses, through a service and in one process: memory stays flat after the warm-up."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import numpy as np
import orjson
from prometheus_client.parser import text_string_to_metric_families as parse_text

from assay import Scorer
from examples.rollouts import as_request, generate
from tests.cases.mixed import OPTIONS, ROWS, columns
from tests.faults.fault_soak import AS_DEPLOYED
from tests.faults.storm import request, resident, settled
from tests.servers import launched

RESPONSES = int(os.environ.get("ASSAY_MILLION", "1000000"))
WARM_UP = 0.3
"""Share of the responses after which pools, caches and the allocator have what they need."""

ALLOWED = 0.05
"""Growth of the resident size from the first half after the warm-up to the second, as a share."""

NAMES = 1000
CLIENTS = 4
MIXED_EVERY = 200
"""One request in this many has rows of other tasks, which separate processes score."""


def check_flat(sizes: list[tuple[int, int]]) -> None:
    """Check (responses so far, resident bytes) after the warm-up."""
    progress, resident_sizes = (np.array(column, float) for column in zip(*sizes, strict=True))
    kept = progress > WARM_UP * RESPONSES
    half = progress > (1 + WARM_UP) / 2 * RESPONSES
    first, second = np.median(resident_sizes[kept & ~half]), np.median(resident_sizes[half])
    slope = np.polyfit(progress[kept], resident_sizes[kept], 1)[0] * 1e6
    print(
        f"\n{progress[-1]:,.0f} responses; resident {resident_sizes[0] / 2**20:.1f} MiB at first, after the warm-up "
        f"{first / 2**20:.1f} then {second / 2**20:.1f} MiB, {slope / 2**20:+.2f} MiB for a million"
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
            data = request(body, "/v1/score", f"X-Assay-Run: run {dice.randrange(NAMES)}")
            writer.write(data.replace(b"Connection: close", b"Connection: keep-alive", 1))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
            status = int(head.split()[1])
            self.statuses[status] += 1
            self.scored += responses if status == 200 else 0
        writer.close()


def test_a_service_with_many_runs_stays_flat(singles):
    """1,000 names of runs, 32 in labels of metrics; a tenth of the requests is refused."""
    sizes: list[tuple[int, int]] = []
    with launched("--drain-seconds", "0", environ=AS_DEPLOYED) as server:
        server.wait_until_ready()
        traffic = Traffic(server.url, singles)

        async def watch() -> None:
            clients = [asyncio.create_task(traffic.send(seed)) for seed in range(CLIENTS)]
            while traffic.scored < RESPONSES and not any(client.done() for client in clients):
                sizes.append((traffic.scored, resident(server.process.pid)))
                await asyncio.sleep(0.5)
            await asyncio.gather(*clients)

        asyncio.run(watch())
        sizes.append((traffic.scored, resident(server.process.pid)))
        held = settled(server)
        with server.client() as client:
            families = parse_text(client.get("/metrics").text)
            samples = [sample for family in families for sample in family.samples]
        log = server.log
    print(f"\n{traffic.statuses}, {len(samples)} series", end="")
    check_flat(sizes)
    assert sum(sample.value for sample in samples if sample.name == "assay_reward_count") == traffic.scored
    assert traffic.statuses.keys() == {200, 400}
    assert not any(held.values())
    assert "Traceback" not in log


def test_a_scorer_stays_flat():
    scorer, dice = Scorer(), random.Random(3)
    batches = [as_request(generate(count, 5, count)) for count in (1, 20, 200, 400)]
    sizes: list[tuple[int, int]] = []
    scored = 0
    while scored < RESPONSES:
        batch = dice.choice(batches)
        scores = scorer.score(batch["responses"], batch["references"], batch["reference_index"])
        assert len(scores.rewards) == len(scores.reasons) == len(scores.advantages()) == len(batch["responses"])
        scored += len(scores)
        sizes.append((scored, resident(os.getpid())))
    check_flat(sizes)

"""Some minutes of mixed work, with wrong requests and departures: memory and latency stay flat after the warm-up."""

from __future__ import annotations

import asyncio
import gzip
import os
import random
import time
from collections import Counter

import numpy as np
import orjson
import pytest

from examples.rollouts import as_request, generate
from tests.faults.storm import Watch, fetch, request, resident, settled
from tests.servers import launched

pytestmark = pytest.mark.attack

SECONDS = float(os.environ.get("ASSAY_SOAK_SECONDS", "240"))
WARM_UP = 0.4
"""Share of the time until pools, caches and the allocator have what they need."""

CLIENTS = 6
AS_DEPLOYED = {"MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in deploy/: without it, glibc keeps what the largest batches together have ever needed, and gets there slowly."""

ALLOWED = 0.05
"""Growth of the resident size from the first half after the warm-up to the second, as a share."""


def test_memory_and_latency_stay_flat(singles, rewards, batch_body):
    bodies = [orjson.dumps(one) for one in singles]
    medium = [orjson.dumps(as_request(generate(40, 5, seed))) for seed in range(8)]
    sizes: list[tuple[float, int]] = []
    with launched("--drain-seconds", "0", environ=AS_DEPLOYED) as server:
        server.wait_until_ready()

        async def client(dice: random.Random, end: float) -> Counter[int]:
            found: Counter[int] = Counter()
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
                found[(await fetch(server.url, data, patience)).status] += 1
            return found

        async def soak() -> Counter[int]:
            end = time.monotonic() + SECONDS
            clients = [asyncio.create_task(client(random.Random(k), end)) for k in range(CLIENTS)]
            while time.monotonic() < end:
                sizes.append((time.monotonic(), resident(server.process.pid)))
                await asyncio.sleep(0.5)
            return sum(await asyncio.gather(*clients), Counter())

        with Watch(server, bodies[0], rewards[0], pause=0.05) as watch:
            found = asyncio.run(soak())
        held, log = settled(server), server.log
    kept = sizes[int(WARM_UP * len(sizes)) :]
    first, second = (np.median([size for _, size in half]) for half in (kept[: len(kept) // 2], kept[len(kept) // 2 :]))
    moments, resident_sizes = (np.array(column, float) for column in zip(*kept, strict=True))
    slope = np.polyfit(moments - moments[0], resident_sizes, 1)[0] * 60
    waits = np.array(watch.waits[int(WARM_UP * len(watch.waits)) :])
    early, late = (float(np.median(half)) for half in np.array_split(waits, 2))
    print(
        f"\n{found}\nresident {first / 2**20:.1f} then {second / 2**20:.1f} MiB, {slope / 2**20:+.2f} MiB a minute; "
        f"single {1e3 * early:.1f} then {1e3 * late:.1f} ms, p99 {1e3 * np.quantile(waits, 0.99):.0f} ms"
    )
    assert second < (1 + ALLOWED) * first
    assert late < 2 * early + 0.005
    assert not watch.failures
    assert not any(held.values())
    assert "Traceback" not in log
    assert found.keys() <= {0, 200, 400, 429, 504}

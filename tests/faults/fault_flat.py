"""Minutes of mixed work of many runs, with wrong requests and departures: memory and latency stay flat."""

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
from tests.cases.mixed import OPTIONS, columns
from tests.faults.storm import Watch, check_settled, fetch, request, resident
from tests.servers import launched

pytestmark = pytest.mark.attack

SECONDS = float(os.environ.get("ASSAY_SOAK_SECONDS", "240"))
WARM_UP = 0.4
"""Share of the time, or of the responses, until pools, caches and the allocator have what they need."""

ALLOWED = 0.05
"""Growth of the resident size from the first half after the warm-up to the second, as a share."""

AS_DEPLOYED = {"MALLOC_TRIM_THRESHOLD_": "131072"}
"""As in deploy/: without it, glibc keeps what the largest batches together have ever needed, and gets there slowly."""


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


def test_memory_and_latency_stay_flat(singles, rewards, batch_body):
    bodies = [orjson.dumps(one) for one in singles]
    medium = [orjson.dumps(as_request(generate(40, 5, seed))) for seed in range(8)]
    mixed = orjson.dumps(columns() | {"config": OPTIONS})
    sizes: list[tuple[float, int]] = []
    statuses: Counter[int] = Counter()
    with launched("--drain-seconds", "0", environ=AS_DEPLOYED) as server:
        server.wait_until_ready()

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
                elif chance < 0.355:
                    data = request(mixed)
                else:
                    data = request(dice.choice(bodies), "/v1/score", f"X-Assay-Run: run {dice.randrange(1_000)}")
                patience = 0.01 if dice.random() < 0.03 else 60.0
                statuses[await fetch(server.url, data, patience)] += 1

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

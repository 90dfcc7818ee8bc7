"""Make many concurrent single calls, as a trainer does.

    python -m tests.clients.single_calls URL COUNT [WINDOW]

It repeats the calls of `samples.REQUEST`, and prints the total seconds and the rewards. In the process of the tests,
with the heap of a whole suite, Python's garbage collector would be measured too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from assay_client import AsyncClient
from tests.http.samples import REFERENCE, REQUEST

RESPONSES = REQUEST["responses"]


async def run(url: str, count: int, **settings: float) -> tuple[float, list[float]]:
    """Return the seconds of `count` concurrent calls, and their rewards."""
    async with AsyncClient(base_url=url, **settings) as client:
        await client.score_one(RESPONSES[0], REFERENCE)
        started = time.perf_counter()
        scores = await asyncio.gather(*(client.score_one(RESPONSES[k % 3], REFERENCE) for k in range(count)))
        return time.perf_counter() - started, [score.reward for score in scores]


if __name__ == "__main__":
    url, count, *window = sys.argv[1:]
    seconds, rewards = asyncio.run(run(url, int(count), **({"window": float(window[0])} if window else {})))
    print(json.dumps({"seconds": seconds, "rewards": rewards}))

"""A step of training, scored by a client with retries while something happens to its service."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from assay import Scorer
from assay_client import Client
from examples.rollouts import as_request, generate

CLIENTS, PORTION = 8, 40


def check_step(client: Client, disturb: Callable[[], object], rounds: int) -> None:
    """Score 2,000 responses in portions, from several threads, `rounds` times; call `disturb` when a quarter is done.

    Every response must get its reward, once and bit for bit.
    """
    step = as_request(generate(400, 5, 3))
    expected = Scorer().score(step["responses"], step["references"], step["reference_index"]).rewards.tolist()
    starts = list(range(0, len(expected), PORTION)) * rounds
    references = [step["references"][k] for k in step["reference_index"]]
    done: list[int] = []
    lock = threading.Lock()

    def score(start: int) -> list[float]:
        rows = slice(start, start + PORTION)
        scores = client.score(step["responses"][rows], references[rows])
        with lock:
            done.append(start)
            if len(done) == len(starts) // 4:
                disturb()
        return list(scores.rewards)

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(score, starts)) == [expected[start : start + PORTION] for start in starts]

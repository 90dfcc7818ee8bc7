"""Drains and lost workers under load: nothing lost, nothing twice, nothing different."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product

import pytest

from assay import Scorer
from assay_client import Client
from examples.rollouts import as_request, generate
from tests.http.process.drains import drain_at_random, drains
from tests.http.process.watching import wait_for_workers, workers_of
from tests.servers import launched

pytestmark = pytest.mark.attack

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


def test_a_client_with_retries_loses_nothing():
    """One of two services gets SIGTERM; each response is scored exactly once, with the same bits."""
    with launched("--drain-seconds", "1") as first, launched("--drain-seconds", "1") as second:
        for server in (first, second):
            server.wait_until_ready()
        with Client(base_url=[first.url, second.url]) as client:
            check_step(client, lambda: first.process.send_signal(signal.SIGTERM), 6)
        assert first.process.wait(30) == 0
        assert "Traceback" not in first.log


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda number: number.name)
def test_a_client_with_retries_loses_nothing_to_a_lost_worker(number):
    """A worker is killed, or stopped until its supervisor replaces it."""
    with launched("--workers", "2", "--drain-seconds", "0.5", "--worker-timeout-seconds", "3") as server:
        wait_for_workers(server, 2)
        victim = workers_of(server)[0]
        with Client(base_url=server.url, timeout=240) as client:
            check_step(client, lambda: os.kill(victim, number), 6)
        wait_for_workers(server, 3)
        assert victim not in workers_of(server)


@pytest.mark.parametrize("clients", [16, 64])
@pytest.mark.parametrize("place", ["one process", "two workers", "Unix socket"])
def test_clients_that_never_try_again_lose_nothing_to_the_end(place, clients, tmp_path):
    """Clients continue until they can no longer connect; every connection gets a reply."""
    flags = {"one process": (), "two workers": ("--workers", "2"), "Unix socket": ("--uds", str(tmp_path / "socket"))}
    done = drains(20, ["kept connection", "new connections"] * (clients // 2), *flags[place])
    lost = [len(drain.lost) for drain in done]
    answered = sum(drain.answered.total() for drain in done)
    print(f"\n{place}, {clients} clients: {answered} answered, lost in each drain {lost}")
    assert not any(lost), [drain.lost for drain in done if drain.lost]


@pytest.mark.parametrize(
    ("workers", "portion"), [*product([1], range(10)), *product([2], range(7)), *product([3], range(3))]
)
def test_500_drains(workers, portion):
    """Drains, 25 in each portion, under clients of every kind, at random moments, of two services at a time."""
    moments = [random.Random(f"{workers} {portion} {k}") for k in range(25)]
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(partial(drain_at_random, workers), moments))
    codes = Counter(code for _, code, _ in done)
    answered = sum((drain.answered for drain, _, _ in done), Counter[str]())
    lost = [loss for drain, _, _ in done for loss in drain.lost]
    wrong = [name for drain, _, _ in done for name in drain.wrong]
    left = sum(len(drain.left) for drain, _, _ in done)
    print(
        f"\n{workers} workers, portion {portion}: codes {dict(codes)}, lost {len(lost)}, wrong {len(wrong)}, "
        f"left {left}, answered {answered.total()} {dict(answered)}"
    )
    assert codes == {0: len(moments)}, [log for _, code, log in done if code]
    assert not lost
    assert not wrong
    assert not left
    assert not [log for _, _, log in done if "Traceback" in log]

"""SIGTERM under load: nothing lost, nothing twice, nothing different."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from itertools import product

import pytest

from assay_client import Client
from tests.faults.steps import check_step
from tests.http.process.drains import drain_at_random, drains
from tests.servers import launched

pytestmark = pytest.mark.attack


def test_a_client_with_retries_loses_nothing():
    """One of two services gets SIGTERM; each response is scored exactly once, with the same bits."""
    with launched("--drain-seconds", "1") as first, launched("--drain-seconds", "1") as second:
        for server in (first, second):
            server.wait_until_ready()
        with Client(base_url=[first.url, second.url]) as client:
            check_step(client, lambda: first.process.send_signal(signal.SIGTERM), 6)
        assert first.process.wait(30) == 0
        assert "Traceback" not in first.log


def test_a_restart_in_place_loses_nothing():
    """The service drains, exits and restarts at the same address while its clients continue."""
    with ExitStack() as stack:
        first = stack.enter_context(launched("--drain-seconds", "0.2"))
        first.wait_until_ready()
        port = first.url.rsplit(":", 1)[1]
        codes: list[int] = []

        def begin_again() -> None:
            codes.append(first.stop())
            stack.enter_context(launched("--port", port, "--drain-seconds", "0"))

        restart = threading.Thread(target=begin_again)
        with Client(base_url=first.url) as client:
            check_step(client, restart.start, 40)
        restart.join()
    assert codes == [0]


@pytest.mark.soak
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


@pytest.mark.soak
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
    idle = sum(drain.idle for drain, _, _ in done)
    left = sum(len(drain.left) for drain, _, _ in done)
    seconds = max(drain.seconds for drain, _, _ in done)
    print(
        f"\n{workers} workers, portion {portion}: codes {dict(codes)}, lost {len(lost)}, wrong {len(wrong)}, "
        f"left {left}, idle {idle}, longest {seconds:.1f} s, answered {answered.total()} {dict(answered)}"
    )
    assert codes == {0: len(moments)}, [log for _, code, log in done if code]
    assert not lost
    assert not wrong
    assert not left
    assert not [log for _, _, log in done if "Traceback" in log]
    assert max(drain.most_processes for drain, _, _ in done) >= workers + (workers > 1)  # and their supervisor

"""SIGTERM under load: nothing lost, nothing twice, nothing different."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from itertools import product
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from assay import Scorer
from assay_client import Client
from examples.rollouts import as_request, generate
from tests.http.process.drains import drain_at_random, drains
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

CLIENTS, PORTION = 8, 40


@pytest.fixture(scope="module")
def step() -> dict[str, Any]:
    """2,000 responses."""
    return as_request(generate(400, 5, 3))


@pytest.fixture(scope="module")
def expected(step) -> list[float]:
    return Scorer().score(step["responses"], step["references"], step["reference_index"]).rewards.tolist()


def portions(step: dict[str, Any]) -> list[list[int]]:
    rows = range(len(step["responses"]))
    return [list(rows[first : first + PORTION]) for first in range(0, len(rows), PORTION)]


def score_all(client: Client, step: dict[str, Any], disturb: Callable[[], None], rounds: int) -> list[list[float]]:
    """Every portion, from several threads, `rounds` times; `disturb` is called when a quarter is done."""
    done = [0]
    lock = threading.Lock()
    work = [portion for _ in range(rounds) for portion in portions(step)]

    def score(rows: list[int]) -> list[float]:
        found = client.score(
            [step["responses"][k] for k in rows], [step["references"][step["reference_index"][k]] for k in rows]
        )
        with lock:
            done[0] += 1
            if done[0] == len(work) // 4:
                disturb()
        return list(found.rewards)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(score, work))


def test_a_client_with_retries_loses_nothing(step, expected):
    """One of two services gets SIGTERM; each response is scored exactly once, with the same bits."""
    with launched("--drain-seconds", "1") as first, launched("--drain-seconds", "1") as second:
        for server in (first, second):
            server.wait_until_ready()
        with Client(base_url=[first.url, second.url]) as client:
            found = score_all(client, step, lambda: first.process.send_signal(signal.SIGTERM), 6)
        assert first.process.wait(30) == 0
        assert "Traceback" not in first.log
    want = [[expected[k] for k in rows] for _ in range(6) for rows in portions(step)]
    assert found == want


def test_a_restart_in_place_loses_nothing(step, expected):
    """The service drains, exits and restarts at the same address while its clients continue."""
    rounds = 40
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
            found = score_all(client, step, restart.start, rounds)
        restart.join()
    assert codes == [0]
    assert found == [[expected[k] for k in rows] for _ in range(rounds) for rows in portions(step)]


@pytest.mark.parametrize("clients", [16, 64])
@pytest.mark.parametrize("place", ["one process", "two workers", "Unix socket"])
def test_clients_that_never_try_again_lose_nothing_to_the_end(place, clients, tmp_path):
    """Clients continue until they can no longer connect; every connection gets a reply."""
    flags = {"one process": (), "two workers": ("--workers", "2"), "Unix socket": ("--uds", str(tmp_path / "socket"))}
    found = drains(20, ["kept connection", "new connections"] * (clients // 2), *flags[place])
    lost = [len(drain.lost) for drain in found]
    answered = sum(drain.answered.total() for drain in found)
    print(f"\n{place}, {clients} clients: {answered} answered, lost in each drain {lost}")
    assert not any(lost), [drain.lost for drain in found if drain.lost]


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
    assert max(drain.most_processes for drain, _, _ in done) > workers


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_without_retries_there_is_no_error_while_it_drains(step, expected, flags):
    """Neither persistent connections nor one per request see an error before the interval ends."""
    interval = 3.0
    with launched("--drain-seconds", str(interval), *flags) as server:
        server.wait_until_ready()
        if flags:
            time.sleep(10)
        signalled = [float("inf")]
        errors: list[str] = []
        counts = [0, 0]
        threads = [
            threading.Thread(target=plain_client, args=(server, step, expected, k, signalled, interval, errors, counts))
            for k in range(CLIENTS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(2)
        signalled[0] = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert server.process.wait(60) == 0
        log = server.log
    print(f"\n{counts[0]} requests before, {counts[1]} after the signal, errors {len(errors)}")
    assert not errors
    assert counts[1] > 50
    assert "Traceback" not in log


def plain_client(
    server: LiveServer,
    step: dict[str, Any],
    expected: list[float],
    number: int,
    signalled: list[float],
    interval: float,
    errors: list[str],
    counts: list[int],
) -> None:
    """Requests one after another, on one connection as long as the server keeps it (or on new ones), never again."""
    address = urlsplit(server.url)
    client = HTTPConnection(str(address.hostname), address.port, timeout=30)
    k = number
    # A margin before the end of the interval: what is sent then is answered, what is sent later may be refused.
    while time.monotonic() < signalled[0] + interval - 0.5:
        rows = [(k + j) % len(step["responses"]) for j in range(1 + 39 * (number % 2))]
        body = orjson.dumps(
            {
                "references": [step["references"][step["reference_index"][row]] for row in rows],
                "responses": [step["responses"][row] for row in rows],
            }
        )
        try:
            client.request("POST", "/v1/score", body, {"content-type": "application/json"})
            reply = client.getresponse()
            found = orjson.loads(reply.read())
            if reply.status != 200 or found["rewards"] != [expected[row] for row in rows]:
                errors.append(f"{reply.status}")
        except Exception as error:
            errors.append(f"{time.monotonic() - signalled[0]:.2f} s: {error!r}")
            client.close()
        if number % 4 >= 2:
            client.close()
        counts[time.monotonic() > signalled[0]] += 1
        k += len(rows)
        time.sleep(0.05 if number % 3 == 0 else 0)
    client.close()


def test_a_second_signal_ends_it_at_once_and_says_so(step):
    """A request whose body never ends would hold the drain up: it is answered 503, and the exit code tells."""
    with launched("--drain-seconds", "60", "--body-seconds", "60", "--deadline-seconds", "60") as server:
        server.wait_until_ready()
        address = urlsplit(server.url)
        client = HTTPConnection(str(address.hostname), address.port, timeout=30)
        client.putrequest("POST", "/v1/score")
        client.putheader("Content-Length", "1000")
        client.endheaders(b"{")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        reply = client.getresponse()
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1
        assert server.process.wait(10) == 1
        assert time.monotonic() - started < 5
        assert "requests cut off: 1" in server.log
        assert "Traceback" not in server.log


def test_the_hard_deadline_ends_it(step):
    with launched("--drain-seconds", "0", "--shutdown-seconds", "1", "--body-seconds", "60") as server:
        server.wait_until_ready()
        address = urlsplit(server.url)
        client = HTTPConnection(str(address.hostname), address.port, timeout=30)
        client.putrequest("POST", "/v1/score")
        client.putheader("Content-Length", "1000")
        client.endheaders(b"{")
        time.sleep(0.3)
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert client.getresponse().status == 503
        assert server.process.wait(10) == 1
        assert 0.9 < time.monotonic() - started < 6
        assert "Traceback" not in server.log

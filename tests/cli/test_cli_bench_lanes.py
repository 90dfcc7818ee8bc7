"""The benchmarks and the load generator: turns, and no times for wrong results."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from itertools import count
from typing import Any

import numpy as np
import orjson
import pytest

from assay.service.bench.bare_server import bare_reply
from assay.service.bench.benchmarks import (
    DISTINCT,
    arrow_rewards,
    build,
    bursts,
    in_process,
    over_http,
    singles,
    some_rows,
)
from assay.service.bench.load_generator import Plan
from assay.service.bench.measure import (
    Benchmark,
    BenchmarkError,
    Run,
    ServerProcess,
    WrongAnswerError,
    bare_server,
    cpu_seconds,
    measure,
    service,
)
from tests.command_line import KEY_LINE, RESPONSE

REQUEST = {"responses": [RESPONSE, "x"], "references": [KEY_LINE], "reference_index": [0, 0]}


def recorded(name: str, events: list[str], wrong: int | None = None) -> Benchmark:
    """Return a benchmark that records its calls."""
    runs = count()

    def run() -> Run:
        events.append(f"run {name}")
        number = next(runs)
        if number == wrong:
            raise WrongAnswerError("different")
        return Run(float(number))

    @contextmanager
    def start() -> Iterator[Callable[[], Run]]:
        events.append(f"enter {name}")
        try:
            yield run
        finally:
            events.append(f"exit {name}")

    return Benchmark(name, f"benchmark {name}", 3, start)


def test_benchmarks_run_in_turns_in_random_order() -> None:
    events: list[str] = []
    timings = measure([recorded("a", events), recorded("b", events)], 20)
    assert events[:4] == ["enter a", "run a", "enter b", "run b"]
    assert events[-2:] == ["exit b", "exit a"]
    rounds = {tuple(events[k : k + 2]) for k in range(4, 44, 2)}
    assert rounds == {("run a", "run b"), ("run b", "run a")}
    assert [(timing.name, timing.responses) for timing in timings] == [("a", 3), ("b", 3)]
    assert [run.seconds for run in timings[0].runs] == [float(run) for run in range(1, 21)]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_wrong_result_in_any_run_ends_it(wrong: int) -> None:
    events: list[str] = []
    with pytest.raises(WrongAnswerError, match="benchmark a: different"):
        measure([recorded("a", events, wrong)], 2)
    assert events[-1] == "exit a"


@pytest.fixture(scope="module")
def bare() -> Iterator[ServerProcess]:
    with bare_server() as server:
        yield server


def test_a_wrong_reward_in_process() -> None:
    batch, rewards = (REQUEST["responses"], REQUEST["references"], REQUEST["reference_index"]), np.array([1.0, 0.0])
    assert in_process(lambda *_: [1.0, 1e-13], batch, rewards, 1e-12)().seconds >= 0
    for found in ([1.0, 1e-13], [1.0, 0.5]):
        with pytest.raises(WrongAnswerError, match="the rewards differ"):
            in_process(lambda *_, f=found: f, batch, rewards)()


def test_a_wrong_reply_over_http(bare: ServerProcess) -> None:
    body, start = orjson.dumps(REQUEST), partial(nullcontext, bare)
    with over_http(start, body, "application/json", orjson.loads, bare_reply(2)) as run:
        assert run().seconds > 0
    with (
        over_http(start, body, "application/json", orjson.loads, bare_reply(1)) as run,
        pytest.raises(WrongAnswerError),
    ):
        run()


def test_rewards_of_an_arrow_reply() -> None:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"reward": [1.0, 0.0], "reason": ["ok", "ok"]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert arrow_rewards(sink.getvalue().to_pybytes()) == [1.0, 0.0]


def test_the_service_is_compared_with_the_rewards_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every benchmark over HTTP on one server, and a single with a wrong reward."""
    with service() as server:
        monkeypatch.setattr("assay.service.bench.benchmarks.service", partial(nullcontext, server))
        names = ("http_json", "http_arrow", "singles") if find_spec("pyarrow") else ("http_json", "singles")
        for benchmark in build(names, REQUEST, {"plain_responses": 1, "singles": 10, "connections": 2})[0]:
            with benchmark.start() as run:
                assert run().seconds > 0
        bodies = [orjson.dumps({"references": [KEY_LINE], "responses": [text]}).decode() for text in (RESPONSE, "x")]
        expected = [{"rewards": [1.0]}, {"rewards": [0.5]}]
        wrong = singles(bodies, 10, 2, partial(nullcontext, server), expected)
        with wrong as run, pytest.raises(WrongAnswerError, match="request 1 has wrong rewards"):
            run()


def test_singles_are_spread_over_the_batch() -> None:
    assert some_rows(3) == [0, 1, 2]
    assert some_rows(3 * DISTINCT) == list(range(0, 3 * DISTINCT, 3))


def plan(port: int, pid: int, **changes: Any) -> Plan:
    fields = {"port": port, "server_pid": pid, "connections": 4, "path": "/v1/score", "seconds": 10.0}
    fields |= {"bodies": ['{"responses": ["é"]}'], "expected": [dict(bare_reply(1))]}
    return Plan(**fields | changes)


def test_a_burst_sends_its_requests(bare: ServerProcess) -> None:
    with bursts(plan(bare.port, bare.pid)) as send:
        first, second = send(1), send(50)
    assert min(first.seconds, second.seconds, second.client_seconds or 0) > 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expected": [{"responses": 2}]}, "wrong responses"),
        ({"expected": [{"rewards": [1.0]}]}, "wrong rewards"),
        ({"path": "/nothing"}, "answered HTTP/1.1 404"),
    ],
)
def test_a_burst_notices_every_wrong_reply(bare: ServerProcess, changes: dict[str, Any], message: str) -> None:
    with bursts(plan(bare.port, bare.pid, **changes)) as send, pytest.raises(WrongAnswerError, match=message):
        send(5)


def test_a_burst_notices_one_wrong_reply_among_many(bare: ServerProcess) -> None:
    bodies = ['{"responses": ["x"]}'] * 9 + ['{"responses": ["x", "y"]}']
    expected = [dict(bare_reply(1))] * 10
    wrong = bursts(plan(bare.port, bare.pid, bodies=bodies, expected=expected))
    with wrong as send, pytest.raises(WrongAnswerError, match="request 9 has"):
        send(100)


@pytest.fixture(params=["silent", "hangs up"])
def unhelpful_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield a port that accepts connections but does not answer requests."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1)

        if request.param == "hangs up":
            threading.Thread(target=hang_up, daemon=True).start()
        yield listener.getsockname()[1]


def test_a_burst_that_is_not_answered_ends(unhelpful_port: int) -> None:
    short_plan = plan(unhelpful_port, os.getpid(), connections=1, seconds=0.5)
    with bursts(short_plan) as send, pytest.raises(BenchmarkError, match=r"not answered within|closed|reset"):
        send(5)


def test_a_closed_port() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with bursts(plan(port, os.getpid())) as send, pytest.raises(BenchmarkError, match="refused"):
            send(1)


def test_the_cpu_clock_counts_work_but_not_waiting() -> None:
    before = cpu_seconds(os.getpid())
    if before is None:
        pytest.skip("this system has no processor clock of other processes")
    started = time.process_time()
    while time.process_time() - started < 0.05:
        pass
    busy = cpu_seconds(os.getpid())
    time.sleep(0.2)
    idle = cpu_seconds(os.getpid())
    assert busy is not None
    assert idle is not None
    assert 0.05 <= busy - before < 0.2
    assert idle - busy < 0.05
    assert cpu_seconds(2**25) is None

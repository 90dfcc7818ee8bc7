"""The benchmarks and the load generator: turns, and no times for wrong results."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import orjson
import pytest

from assay.service.bench.bare_server import bare_reply
from assay.service.bench.benchmarks import (
    DISTINCT,
    Bursts,
    InProcess,
    OverHttp,
    Singles,
    Size,
    arrow_rewards,
    build,
    some_rows,
)
from assay.service.bench.load_generator import Plan
from assay.service.bench.measure import BenchmarkError, Run, WrongAnswerError, cpu_seconds, measure
from assay.service.bench.servers import ServerProcess, bare_server, service
from tests.command_line import KEY_LINE, RESPONSE

REQUEST = {"responses": [RESPONSE, "x"], "references": [KEY_LINE], "reference_index": [0, 0]}


class Recorded:
    """A benchmark that records its calls."""

    responses = 3

    def __init__(self, name: str, events: list[str], wrong: int | None = None) -> None:
        self.name = self.title = name
        self.events = events
        self.runs = 0
        self.wrong = wrong

    def __enter__(self) -> Recorded:
        self.events.append(f"enter {self.name}")
        return self

    def __exit__(self, *error: object) -> None:
        self.events.append(f"exit {self.name}")

    def run(self) -> Run:
        self.events.append(f"run {self.name}")
        self.runs += 1
        if self.runs - 1 == self.wrong:
            raise WrongAnswerError(self.name)
        return Run(float(self.runs))


def test_benchmarks_run_in_turns_in_random_order() -> None:
    events: list[str] = []
    timings = measure([Recorded("a", events), Recorded("b", events)], 20)
    assert events[:4] == ["enter a", "run a", "enter b", "run b"]
    assert events[-2:] == ["exit b", "exit a"]
    rounds = {tuple(events[k : k + 2]) for k in range(4, 44, 2)}
    assert rounds == {("run a", "run b"), ("run b", "run a")}
    assert [(timing.name, timing.responses) for timing in timings] == [("a", 3), ("b", 3)]
    assert [run.seconds for run in timings[0].runs] == [float(run) for run in range(2, 22)]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_wrong_result_in_any_run_ends_it(wrong: int) -> None:
    events: list[str] = []
    with pytest.raises(WrongAnswerError):
        measure([Recorded("a", events, wrong)], 2)
    assert events[-1] == "exit a"


@pytest.fixture(scope="module")
def bare() -> Iterator[ServerProcess]:
    with bare_server() as server:
        yield server


def test_a_wrong_reward_in_process() -> None:
    batch = REQUEST["responses"], REQUEST["references"], REQUEST["reference_index"]
    InProcess("plain_python", "plain", lambda *_: [1.0, 1e-13], batch, np.array([1.0, 0.0]), 1e-12).run()
    for found in ([1.0, 1e-13], [1.0, 0.5]):
        with pytest.raises(WrongAnswerError, match="in one thread: the rewards differ"):
            InProcess("in_process", "in one thread", lambda *_, f=found: f, batch, np.array([1.0, 0.0])).run()


def test_a_wrong_reply_over_http(bare: ServerProcess) -> None:
    body, name = (orjson.dumps(REQUEST), 2), "floor"
    start = partial(nullcontext, bare)
    with OverHttp(name, name, start, body, orjson.loads, bare_reply(2)) as benchmark:
        assert benchmark.run().seconds > 0
    with OverHttp(name, name, start, body, orjson.loads, bare_reply(1)) as benchmark, pytest.raises(WrongAnswerError):
        benchmark.run()


def test_rewards_of_an_arrow_reply() -> None:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"reward": [1.0, 0.0], "reason": ["ok", "ok"]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert arrow_rewards(sink.getvalue().to_pybytes()) == [1.0, 0.0]


def test_the_service_is_compared_with_the_rewards_in_process() -> None:
    """Every benchmark over HTTP on one server, and a single with a wrong reward."""
    names = ("http_json", "http_arrow", "singles") if find_spec("pyarrow") else ("http_json", "singles")
    benchmarks, _ = build(names, REQUEST, 1, Size(10, 2))
    with service() as server:
        for benchmark in benchmarks:
            benchmark._start = partial(nullcontext, server)
            with benchmark:
                assert benchmark.run().seconds > 0
        bodies = [orjson.dumps({"references": [KEY_LINE], "responses": [text]}).decode() for text in (RESPONSE, "x")]
        expected = [{"rewards": [1.0]}, {"rewards": [0.5]}]
        wrong = Singles("singles", "singles", partial(nullcontext, server), bodies, expected, Size(10, 2))
        with wrong, pytest.raises(WrongAnswerError, match="request 1 has wrong rewards"):
            wrong.run()


def test_singles_are_spread_over_the_batch() -> None:
    assert some_rows(3) == [0, 1, 2]
    assert some_rows(3 * DISTINCT) == list(range(0, 3 * DISTINCT, 3))


def plan(port: int, pid: int, **changes: Any) -> Plan:
    known = Plan(port, pid, 4, "/v1/score", ['{"responses": ["é"]}'], [dict(bare_reply(1))], 10.0)
    return known._replace(**changes)


def test_a_burst_sends_its_requests(bare: ServerProcess) -> None:
    with Bursts(plan(bare.port, bare.pid)) as bursts:
        first, second = bursts.burst(1), bursts.burst(50)
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
    with Bursts(plan(bare.port, bare.pid, **changes)) as bursts, pytest.raises(WrongAnswerError, match=message):
        bursts.burst(5)


def test_a_burst_notices_one_wrong_reply_among_many(bare: ServerProcess) -> None:
    bodies = ['{"responses": ["x"]}'] * 9 + ['{"responses": ["x", "y"]}']
    expected = [dict(bare_reply(1))] * 10
    wrong = Bursts(plan(bare.port, bare.pid, bodies=bodies, expected=expected))
    with wrong as bursts, pytest.raises(WrongAnswerError, match="request 9 has"):
        bursts.burst(100)


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
    with Bursts(short_plan) as bursts, pytest.raises(BenchmarkError, match=r"not answered within|closed|reset"):
        bursts.burst(5)


def test_a_closed_port() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with Bursts(plan(port, os.getpid())) as bursts, pytest.raises(BenchmarkError, match="refused"):
            bursts.burst(1)


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

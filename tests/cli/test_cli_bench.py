"""`assay bench`: no time for a wrong answer, ratios and their goals, and load on a service at any address."""

from __future__ import annotations

import json
import sys
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
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from assay.loadtests import SCENARIOS, TITLES
from assay.loadtests.bench import Benchmark, Timing, arrow_rewards, arrow_stream, in_process, measure, over_http
from assay.loadtests.exchanges import LoadExchange, RecordedExchange, RequestFailed, WrongAnswer, percentile
from assay.loadtests.load import Load, latency, load_parts, plan, why_invalid
from assay.loadtests.payloads import config_of
from assay.loadtests.results import RATIOS, Results, as_parts, results_json
from assay.loadtests.scaling import (
    INTERVAL,
    Cell,
    computed_table,
    figures_of,
    same_bits,
    scaling_table,
    score_beside,
)
from assay.loadtests.servers import (
    READ_ONLY,
    BenchmarkError,
    BenchRun,
    Clients,
    ServerProcess,
    WrongAnswerError,
    as_request,
    bare_server,
    free_port,
    timed_exchange,
)
from assay.service.config import Config
from assay.service.http.endpoints import about
from assay.service.terminal import show
from tests.command_line import KEY_LINE, RESPONSE
from tests.servers import running

NEEDS_LOCUST = pytest.mark.skipif(find_spec("locust") is None, reason="Locust is not installed (extra `load`)")

SMALL = ("--prompts", "3", "--samples", "2", "--plain-responses", "4", "--singles", "80", "--connections", "8")
REQUEST = {"responses": [RESPONSE, "x"], "references": [KEY_LINE], "reference_index": [0, 0]}


# In turns, and every result checked


def recorded(name: str, events: list[str], wrong: int | None = None) -> Benchmark:
    """Return a benchmark that records its calls."""
    runs = count()

    def run() -> BenchRun:
        events.append(f"run {name}")
        number = next(runs)
        if number == wrong:
            raise WrongAnswerError("different")
        return BenchRun(float(number))

    @contextmanager
    def start() -> Iterator[Callable[[], BenchRun]]:
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
    assert {tuple(events[k : k + 2]) for k in range(4, 44, 2)} == {("run a", "run b"), ("run b", "run a")}
    assert [(timing.name, timing.responses) for timing in timings] == [("a", 3), ("b", 3)]
    assert [run.seconds for run in timings[0].runs] == [float(run) for run in range(1, 21)]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_a_wrong_result_in_any_run_ends_it(wrong: int) -> None:
    events: list[str] = []
    with pytest.raises(WrongAnswerError, match="benchmark a: different"):
        measure([recorded("a", events, wrong)], 2)
    assert events[-1] == "exit a"


def test_a_wrong_reward_in_process() -> None:
    batch, rewards = (REQUEST["responses"], REQUEST["references"], REQUEST["reference_index"]), np.array([1.0, 0.0])
    with in_process(lambda *_: [1.0, 1e-13], batch, rewards, 1e-12) as run:
        assert run().seconds >= 0
    with pytest.raises(WrongAnswerError), in_process(lambda *_: [1.0, 1e-13], batch, rewards) as run:
        run()


@pytest.fixture(scope="module")
def bare() -> Iterator[ServerProcess]:
    with bare_server() as server:
        yield server


def test_every_reply_over_http_is_checked(bare: ServerProcess) -> None:
    bodies = [orjson.dumps({"responses": ["é"] * n}) for n in (1, 2, 3)]
    right = [{"responses": n} for n in (1, 2, 3)]
    send = partial(over_http, partial(nullcontext, bare), bodies, orjson.loads, count=50, connections=4)
    with send(right) as run:
        taken = run()
    assert min(taken.seconds, taken.client_seconds or 0) > 0
    with send([*right[:2], {"responses": 4}]) as run, pytest.raises(WrongAnswerError, match="request 2 "):
        run()
    with pytest.raises(WrongAnswerError, match="404"):
        timed_exchange(bare, [as_request(bare.port, "/nothing", b"{}")], 1, 1)


# Results


def timing(name: str, responses: int, seconds: list[float], cpu: list[float | None] | None = None) -> Timing:
    runs = zip(seconds, cpu or [None] * len(seconds), strict=True)
    return Timing(name, name, responses, tuple(BenchRun(wall, work) for wall, work in runs))


BATCH = {"responses": 10, "mean_response_bytes": 2000, "references": 2, "body_bytes": 30_000, "repeats": 3, "seed": 0}
FAST = timing("in_process", 10, [1.0, 2.0, 9.0], [1.0, 1.0, 1.0])
PLAIN = timing("plain_python", 2, [3.0, 20.0, 36.0], [4.0, 5.0, 6.0])


def shown(capsys: pytest.CaptureFixture[str], *parts: Any) -> str:
    show(*parts)
    return capsys.readouterr().out


def test_results_as_json() -> None:
    """Ratios are of neighbouring turns, for one response."""
    document = results_json(Results([FAST, PLAIN], BATCH, {"http_arrow": "why"}, 1.5))
    ratio = {"median": 20.0, "low": 15.0, "high": 50.0, "cpu": 25.0, "goal": "≥ 20", "met": True}
    assert document["ratios"] == {"in_process_speedup": ratio}
    assert document["lanes"]["in_process"] == {
        "responses": 10,
        "responses_per_second": 5.0,
        "spread": 4.0,
        "seconds": [1.0, 2.0, 9.0],
        "cpu_seconds": [1.0, 1.0, 1.0],
        "client_share": None,
    }
    assert (document["batch"], document["skipped"], document["load_average"]) == (BATCH, {"http_arrow": "why"}, 1.5)
    assert document["machine"].keys() >= {"assay", "cores", "python", "numba"}


def test_goals() -> None:
    assert {benchmark for ratio in RATIOS for benchmark in (ratio.of, ratio.over)} == set(TITLES)
    by_name = {ratio.name: ratio for ratio in RATIOS}
    cases = [
        ("in_process_speedup", 20.0, True),
        ("in_process_speedup", 19.9, False),
        ("arrow_over_floor", 0.8, True),
        ("arrow_over_floor", 0.81, False),
        ("http_speedup", 0.0, None),
    ]
    assert [(name, value, by_name[name].met(value)) for name, value, _ in cases] == cases


@pytest.mark.parametrize(
    ("timings", "load", "note"),
    [
        ([FAST, timing("plain_python", 10, [21.0, 42.0, 189.0])], None, None),
        ([FAST, timing("plain_python", 10, [19.0, 38.0, 171.0])], None, "missed: slower"),
        (
            [Timing("singles", "", 10, (BenchRun(1.0, 0.5, 0.91), BenchRun(2.0, 0.5, 1.82)))],
            None,
            "! the load generator",
        ),
        ([Timing("singles", "", 10, (BenchRun(1.0, 0.5, 0.89), BenchRun(2.0, 0.5, 1.78)))], None, None),
        ([FAST], 1000.0, "the machine was busy"),
        ([FAST], 0.0, None),
    ],
)
def test_notes(capsys: pytest.CaptureFixture[str], timings: list[Timing], load: float | None, note: str | None) -> None:
    text = shown(capsys, *as_parts(Results(timings, BATCH, {}, load)))
    assert [start for start in ("missed: slower", "! the load generator", "the machine was busy") if start in text] == (
        [note] if note else []
    )


# The command


def test_a_run_in_this_process(call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is compared with the rewards in process."""
    text = call("bench", *SMALL, "--repeats", "1", "--lanes", "http_json, singles plain_python").stdout
    for title in ("HTTP JSON, times as fast as plain Python", *(TITLES[n] for n in ("http_json", "singles"))):
        assert title in text
    assert "floor" not in text
    assert "\x1b" not in text


def test_rewards_of_an_arrow_reply() -> None:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pydict({"reward": [1.0, 0.0], "reason": ["ok", "ok"]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    assert arrow_rewards(bytearray(sink.getvalue().to_pybytes())) == [1.0, 0.0]
    with pa.ipc.open_stream(arrow_stream(REQUEST)) as reader:
        assert reader.read_all().to_pydict() == {"response": [RESPONSE, "x"], "reference": [KEY_LINE] * 2}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--lanes", "in_process,swift"), "unknown: swift"),
        (("--scenarios", "singles,doubles"), "unknown: doubles"),
        (("--threads", "1,0"), "must be positive integers, separated by commas: 1,0"),
        (("--workers", "two"), "must be positive integers, separated by commas: two"),
        (("--url", "127.0.0.1:8000"), "must begin with http:// or https://"),
        pytest.param(
            ("--url", "http://127.0.0.1:1"), "there is no service at http://127.0.0.1:1: ", marks=NEEDS_LOCUST
        ),
    ],
)
def test_wrong_names_and_addresses_are_refused(call, flags: tuple[str, ...], message: str) -> None:
    result = call("bench", *SMALL, *flags)
    assert result.exit_code == 2
    assert message in result.stderr


# Threads and workers


def test_rewards_must_be_the_same_bits() -> None:
    rewards = np.array([0.5, 0.0])
    same_bits([0.5, 0.0], rewards)
    for wrong in ([np.nextafter(0.5, 1), 0.0], [0.5, -0.0], [0.5]):
        with pytest.raises(WrongAnswerError):
            same_bits(wrong, rewards)


def test_waits_for_the_gil_are_counted_without_a_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sleep gives up the GIL, for long enough that the busy thread takes it, and must wait for it once."""
    waits, longer = 3, 0.1
    monkeypatch.setattr("assay.loadtests.scaling.LONG_INTERVAL", longer)  # than other tests delay a thread

    def score(*_: Any) -> list[float]:
        for _ in range(waits):
            time.sleep(0.01)
        return [1.0]

    interval = sys.getswitchinterval()
    cell, batch = Cell("in_process", 1), ([""], [""], [0])
    runs = {
        name: tuple(score_beside(score, batch, np.array([1.0]), seconds) for _ in range(3))
        for name, seconds in (("", 0.001), ("busy", INTERVAL), ("busier", longer))
    }
    figures = figures_of({(cell, name): Timing(name, name, 1, taken) for name, taken in runs.items()})
    counted = figures[cell].gil_waits
    assert counted is not None
    assert waits / 2.5 < counted < 2.5 * waits
    assert sys.getswitchinterval() == interval


def test_clients_in_processes_of_their_own_share_the_requests(bare: ServerProcess) -> None:
    with Clients(2) as clients:
        requests = [as_request(bare.port, READ_ONLY, b"[" * 1_000_000)]
        sent = clients.send([bare.port], requests, 5, 2, 4)
        assert [len(client.replies) for client in sent] == [2, 3]
        assert all(reply.endswith(b"\r\n\r\n{}") for client in sent for reply in client.replies)
        with pytest.raises(BenchmarkError, match="the server did not answer"):
            clients.send([free_port()], requests, 1, 1, 1)


def test_figures_of_threads_and_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two cores, 4 threads cannot be four times as fast."""
    monkeypatch.setattr("assay.loadtests.scaling.usable_cores", lambda: 2)
    monkeypatch.setattr("assay.loadtests.results.usable_cores", lambda: 2)
    one, two, four = (Cell("in_process", threads) for threads in (1, 2, 4))
    http, singles, more = Cell("http_json", 2, 1, 4), Cell("singles", 1, 1, 64), Cell("singles", 2, 2, 64)
    seconds = {(one, ""): 2.0, (two, ""): 1.25, (four, ""): 1.0, (http, ""): 2.0, (http, "floor"): 0.5}
    seconds |= {(one, "busy"): 3.0, (one, "busier"): 3.08, (singles, ""): 20.0, (more, ""): 12.5}
    seconds |= {(singles, "floor"): 0.2, (one, "empty"): 9.0}
    figures = figures_of({key: timing(str(key), 10, [wall] * 3, [0.1] * 3) for key, wall in seconds.items()})
    efficiencies = [round(measured.efficiency, 9) for measured in figures.values()]
    assert efficiencies == [1.0, 0.8, 1.0, 0.5, 1.0, 0.8]
    assert (figures[one].rate, figures[one].beside_busy, figures[http].of_floor) == pytest.approx((5.0, 1.5, 0.25))
    assert round(figures[one].gil_waits or 0, 6) == 8
    assert figures[two].cpu_seconds == pytest.approx(10_000)
    assert figures[one].serial_seconds == 0.1
    text = scaling_table(figures, BATCH, None).markdown()
    assert "| in process | 4 ! |" in text
    assert "Serial part of a batch in process: 100.0 ms" in text
    more_cores = computed_table(figures, 10)
    assert more_cores is not None
    assert more_cores.rows[0] == [4, "100", "20", "200"]  # all of it serial; as fast as the floor
    assert computed_table({one: figures[one]}, 10) is None


@pytest.mark.slow
def test_threads_and_workers_are_measured(call) -> None:
    """The CPU time is that of the workers, which are processes below the server."""
    flags = ("--threads", "2", "--workers", "2", "--repeats", "1", "--json", "-")
    document = json.loads(call("bench", *SMALL, *flags).stdout)
    cells = {(cell["lane"], cell["threads"], cell["connections"]): cell for cell in document["cells"]}
    assert [lane for lane, _, _ in cells] == [*["in_process"] * 2, *["http_json"] * 2, "singles"]
    assert all(cell["rate"] > 0 and cell["cpu_seconds"] > 0 for cell in cells.values())
    assert all((cell["of_floor"] is None) is (cell["workers"] is None) for cell in cells.values())
    assert all((cell["gil_waits"] is None) is (cell["lane"] != "in_process") for cell in cells.values())


# Answers under load

ANSWER = {"rewards": [1.0, 0.5], "reasons": ["ok", "ok"], "config_id": "c"}
GOOD = LoadExchange("two", b'{"\xff', ANSWER, 2)
REFUSED = LoadExchange(
    "bad", b"", {"type": "/docs#problem-x", "places": [["references[0]", "no_steps"]]}, 0, status=422
)
PROBLEM = {"type": "/docs#problem-x", "detail": "…", "errors": [{"path": "references[0]", "reason": "no_steps"}]}


@pytest.mark.parametrize(
    ("exchange", "status", "reply", "kind", "message"),
    [
        (GOOD, 200, ANSWER, None, ""),
        (GOOD, 200, ANSWER | {"rewards": [1.0, 0.25]}, WrongAnswer, "wrong rewards"),
        (
            GOOD,
            200,
            ANSWER | {"reasons": ["no_steps", "ok"], "config_id": "d"},
            WrongAnswer,
            "wrong reasons, config_id",
        ),
        (GOOD, 200, ANSWER | {"advantages": None}, WrongAnswer, "wrong advantages"),
        (GOOD, 200, None, WrongAnswer, "the reply is not a JSON object"),
        (GOOD, 429, {}, RequestFailed, "status 429, not 200"),
        (GOOD, 500, {}, RequestFailed, "status 500, not 200"),
        (GOOD, 422, {}, WrongAnswer, "status 422, not 200"),
        (REFUSED, 422, PROBLEM, None, ""),
        (REFUSED, 422, PROBLEM | {"type": "/docs#problem-y"}, WrongAnswer, "wrong type"),
        (REFUSED, 422, PROBLEM | {"errors": []}, WrongAnswer, "wrong places"),
        (REFUSED, 200, ANSWER, WrongAnswer, "status 200, not 422"),
    ],
)
def test_every_other_answer_is_a_fault(exchange, status, reply, kind, message) -> None:
    fault = exchange.fault(status, None if reply is None else json.dumps(reply).encode())
    assert type(fault) is (kind or type(None))
    assert str(fault or "") == message


def test_figures_are_of_requests_due_in_the_hold(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([100.0, 104.0])
    monkeypatch.setattr("assay.loadtests.exchanges.time.time", lambda: next(moments))
    record = RecordedExchange(ramp=1, hold=2)
    record.start()
    for due, milliseconds, late, fault in [
        (100.9, 50.0, 9.0, None),
        (101.0, 10.0, 1.0, None),
        (102.0, 30.0, 2.0, WrongAnswer("wrong rewards")),
        (102.9, 20.0, 3.0, RequestFailed("status 429, not 200")),
        (103.0, 90.0, 4.0, None),
    ]:
        record.add("two", milliseconds, due, fault, {"responses": 2, "late": late})
    record.write(tmp_path / "record", sent=6)
    figures = json.loads((tmp_path / "record").read_bytes())
    assert figures.pop("client_share") >= 0
    assert figures == {
        "requests_per_second": 1.5,
        "responses_per_second": 3.0,
        "median": 20.0,
        "p95": 30.0,
        "p99": 30.0,
        "late_p99": 3.0,
        "sent": 6,
        "failed": 2,
        "wrong": 1,
        "faults": [["two: wrong rewards", 1], ["two: status 429, not 200", 1]],
        "responses": 10,
        "began": 101.0,
        "ended": 103.0,
        "first": 100.9,
        "last": 103.09,
    }
    assert percentile([], 0.5) is None


def figures(p99: float | None, late: float = 0.0, share: float = 0.25, **others: float) -> dict[str, Any]:
    times = {"median": p99, "p95": p99, "p99": p99, "late_p99": late, "client_share": share}
    moments = {"first": 1.0, "began": 10.0, "ended": 12.0, "last": 20.0}
    numbers = {"requests_per_second": 2.0, "responses_per_second": 4.0, "failed": 0, "wrong": 0, "faults": [["no", 3]]}
    return {**times, **moments, **numbers, "cpu_seconds": None, "invalid": None, **others}


@pytest.mark.parametrize(
    ("measured", "why"),
    [
        (figures(12.0, late=5.0, share=0.9), None),
        (figures(12.0, share=0.95), "95% of a core"),
        (figures(12.0, late=6.5), "6 ms late"),
        (figures(20.0, late=9.0), None),
        (figures(None), "no request"),
    ],
)
def test_figures_of_a_slow_load_generator_are_invalid(capsys, measured, why) -> None:
    assert (why in why_invalid(measured)) if why else why_invalid(measured) is None
    text = shown(capsys, *load_parts({"singles": measured | {"invalid": why}}, []))
    assert "singles: 3 × no" in text
    assert ("singles: INVALID" in text) is bool(why)


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (figures(15.0), ["ratio 7.50", "15.0 ms: met"]),
        (figures(15.1), ["15.0 ms: NOT met"]),
        (figures(6.0, began=0.9), ["INVALID"]),
        (figures(6.0, ended=20.1), ["INVALID"]),
    ],
)
def test_the_latency_beside_batches_is_compared_with_that_alone(beside, words) -> None:
    loads = {"steady-alone": figures(2.0), "batches-beside": figures(300.0)}
    text = "\n".join(latency({**loads, "steady-beside": beside}))
    assert [word for word in words if word not in text] == []
    assert ("INVALID" in text) is ("INVALID" in words)
    assert latency(loads) == []


def test_the_loads_of_a_scenario() -> None:
    beside = [Load("batches-beside", "Batches", 1, 0, 6), Load("steady-beside", "Steady", 1, 100)]
    assert {name: plan(name, users=64, pace=400, rate=100) for name in SCENARIOS} == {
        "batches": [[Load("batches", "Batches", 1, 0, 0)]],
        "pieces": [[Load("pieces", "Pieces", 1, 0, 0)]],
        "singles": [[Load("singles", "Singles", 64, 400)]],
        "singles_reconnecting": [[Load("singles-reconnecting", "SinglesReconnecting", 64, 400)]],
        "mixed": [[Load("mixed", "Mixed", 64, 100)]],
        "steady": [[Load("steady-alone", "Steady", 1, 100)], beside],
    }


# Locust itself, in processes of its own


async def told(request: Request) -> Response:
    """Answer as a service of this version that gives every response the reward 1, and is over capacity at times."""
    if request.method == "GET":
        return JSONResponse(about.config_of(Config()))
    n, settings = len((await request.json())["responses"]), Config().score
    identity = {"config_id": settings.config_id, "signature": settings.signature}
    status = 429 if next(request.app.state.numbers) % 3 else 200
    names = {"x-request-id": request.headers["x-request-id"]}
    return JSONResponse({"rewards": [1.0] * n, "reasons": ["ok"] * n, **identity}, status, names)


@NEEDS_LOCUST
def test_a_service_that_lies_is_found_out(run) -> None:
    app = Starlette(routes=[Route("/{path:path}", told, methods=["GET", "POST"])])
    app.state.numbers = count()
    flags = ("--prompts", "9", "--connections", "1", "--pace", "30", "--seconds", "2", "--scenarios", "singles")
    with running(app) as client:
        result = run("bench", *flags, "--url", str(client.base_url).rstrip("/"), timeout=900)
    assert result.returncode == 1, result.stderr
    text = result.stdout.decode()
    assert "× single: wrong rewards" in text
    assert "× single: status 429, not 200" in text


def test_a_service_with_other_rules_gets_no_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.loadtests.payloads.fetch", lambda *_: b'{"rules_version": "0"}')
    with pytest.raises(BenchmarkError, match="scores by rules 0"):
        config_of("http://127.0.0.1:1", None)

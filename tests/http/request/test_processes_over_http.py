"""Evaluations and other tasks over HTTP: they end in time, do not delay the service, and leave no process."""

from __future__ import annotations

import gzip
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any

import httpx
import orjson
import psutil
import pytest

from tests.http.limits.posting import JSON, connected, probed
from tests.http.process.watching import resident, samples_of, total_of
from tests.http.raw_connection import RawConnection
from tests.http.raw_connection import post as raw_post
from tests.http.samples import errors_of, problem_of
from tests.servers import LiveServer, ready

pytestmark = pytest.mark.attack

MIB = 1 << 20
GYM = "/compat/nemo-gym/aggregate_metrics"

PQA = {"task": "bioprobench.pqa", "records": [{"answer": "a", "generated_response": "[ANSWER_START]a&9[ANSWER_END]"}]}
PROGRAM = "f(a=1, b=[2, 3])\n" * 8_000
"""A reference of maximum length: Python's parser takes a third of a second for it."""

SHORT_PROGRAMS = orjson.dumps({"task": "bioplanner", "references": [PROGRAM], "responses": ["f()"] * 3})
LONG_PROGRAMS = orjson.dumps({"task": "bioplanner", "references": [PROGRAM], "responses": [PROGRAM] * 100})

HOSTILE: dict[str, Callable[[], bytes]] = {
    "names": lambda: b'{"task":"lexical",%b}' % b",".join(b'"%d":1' % k for k in range(5_000_000)),
    "short strings": lambda: b'{"records":["' + b'","'.join([b"ab"] * 12_000_000) + b'"]}',
    "numbers": lambda: b'{"records":[' + b",".join([b"1.5"] * 15_000_000) + b"]}",
    "objects": lambda: b'{"records":[' + b",".join([b"{}"] * 20_000_000) + b"]}",
    "depth": lambda: b'{"records":' + b"[" * 60_000_000,
    "records of names": lambda: orjson.dumps(
        {"task": "bioprobench.err", "records": [{str(k): k for k in range(row, row + 100)} for row in range(40_000)]}
    ),
    "groups": lambda: orjson.dumps(
        {
            "task": "bioprobench.err",
            "records": [{f"g{k}": row for k in range(60)} for row in range(60_000)],
            "options": {"by": [f"g{k}" for k in range(60)]},
        }
    ),
    "one string": lambda: orjson.dumps({"task": "bioprobench.pqa", "records": [{"answer": "a" * (60 * MIB)}]}),
}

QUICK = ("depth", "names", "one string")


@pytest.fixture(scope="module")
def own() -> Iterator[LiveServer]:
    """Start a server for these tests alone, with its processes."""
    with ready() as server:
        assert post(server, "/v1/evaluate", PQA).status_code == 200
        assert post(server, "/v1/score", SHORT_PROGRAMS).status_code == 200
        yield server


def descendants(pid: int) -> set[psutil.Process]:
    return set(psutil.Process(pid).children(recursive=True))


def processor_seconds(processes: set[psutil.Process]) -> float:
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def come_to_rest(pid: int) -> bool:
    """Return whether the descendants of a process, which have work for half a minute, stop working in ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        busy = processor_seconds(descendants(pid))
        time.sleep(0.5)
        if processor_seconds(descendants(pid)) - busy < 0.2:
            return True
    return False


def post(server: LiveServer, path: str, body: Any, **headers: str) -> httpx.Response:
    """Send a document or bytes; underscores in the names of headers stand for hyphens."""
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with server.client() as client:
        return client.post(path, content=content, headers=JSON | names)


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=() if shape in QUICK else pytest.mark.slow) for shape in sorted(HOSTILE)]
)
def test_hostile_documents_do_not_block_the_service(own, shape):
    body = gzip.compress(HOSTILE[shape](), 1)
    with probed(own.url, 2.0):
        reply = post(own, "/v1/evaluate", body, content_encoding="gzip", x_request_timeout="15")
    assert reply.status_code in (400, 413, 422, 504), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert resident(own.process.pid, "VmHWM") < 784 * MIB


def test_a_long_valid_body(own):
    """Almost as long as the limit."""
    record = {"response": "word " * 200, "reference": {"steps": [{"action": "a", "objects": [], "parameters": []}]}}
    body = orjson.dumps({"records": [record] * 57_000})
    assert 58 * MIB < len(body) < 64 * MIB
    with probed(own.url, 2.0):
        reply = post(own, "/v1/evaluate", body)
    assert reply.status_code == 200, reply.text
    assert reply.json()["aggregate"]["count"] == 57_000
    assert resident(own.process.pid, "VmHWM") < 784 * MIB


@pytest.mark.parametrize("route", ["/v1/score", "/v1/evaluate"])
def test_programs_end_at_the_deadline(own, route):
    record = {"ground_truth": PROGRAM, "prediction_code": PROGRAM}
    evaluation = orjson.dumps({"task": "bioplanner", "records": [record] * 100})
    body = LONG_PROGRAMS if route == "/v1/score" else evaluation
    begun, scored = time.perf_counter(), 0
    with probed(own.url, 2.0), connected(own.url) as singles, ThreadPoolExecutor(1) as pool:
        asking = pool.submit(post, own, route, body, x_request_timeout="2")
        while not asking.done():
            assert singles.score(orjson.dumps(SINGLE))[0] == 200
            scored += 1
    assert asking.result().status_code == 504, asking.result().text
    assert time.perf_counter() - begun < 10
    assert scored > 20
    assert come_to_rest(own.process.pid)


SCORE_REFERENCE = 'Step 1: {"action": "a", "objects": ["b"], "parameters": []}'
SINGLE = {"references": [SCORE_REFERENCE], "responses": ["x"]}
SCORE_RESPONSE = f"<think>t</think><key>{SCORE_REFERENCE}</key><orc>Step 1: a b</orc><note>n</note>"


@pytest.mark.parametrize("include", [[], ["advantages"]])
def test_rows_without_time_cost_rows_of_score_nothing(own, include):
    """Send programs that take half a minute beside rows of SCORE: these keep their rewards, at once known."""
    body = {
        "task": ["score"] * 61 + ["bioplanner"] * 100 + ["bioprobench.err"] * 2,
        "responses": [SCORE_RESPONSE, "x"] * 30
        + [SCORE_RESPONSE]
        + [PROGRAM] * 100
        + ["[ANSWER_START]True[ANSWER_END]"] * 2,
        "references": [SCORE_REFERENCE, PROGRAM, True],
        "reference_index": [0] * 61 + [1] * 100 + [2] * 2,
        "include": include,
    }
    with own.client() as client:
        counts = reward_counts(client)
        alone = client.post("/v1/score", json={"references": [SCORE_REFERENCE], "responses": [SCORE_RESPONSE, "x"]})
        answers = []
        for seconds in (4, 8, 16):  # a busy machine may delay a reply, or have no time for a program in the first
            began = time.perf_counter()
            reply = client.post("/v1/score", json=body, headers={"x-request-timeout": str(seconds)})
            late_by = time.perf_counter() - began - seconds
            assert reply.status_code == 200, reply.text
            answers.append(reply.json())
            scored = answers[-1]["reasons"].count("ok") - 31  # others than the rows of SCORE
            if late_by < 0.5 and scored > 0:
                break
        late = client.post("/v1/score", json=body, headers={"x-request-timeout": "1.5"})
        assert late.status_code == 200, late.text
        answers.append(late.json())
        counts = [after - before for before, after in zip(counts, reward_counts(client), strict=True)]
    assert late_by < 0.5
    assert scored > 0
    for answer in answers:
        right, wrong = alone.json()["rewards"]
        assert right > wrong == 0
        assert answer["rewards"][:61] == [right, wrong] * 30 + [right]
        others = list(zip(answer["reasons"][61:], answer["rewards"][61:], strict=True))
        assert set(others) <= {("ok", 1.0), ("out_of_time", 0.0)}
        assert ("out_of_time", 0.0) in others
        assert answer["reasons"][:2] == ["ok", "missing_sections"]
        if include:
            advantages = answer["advantages"]
            assert advantages[0] > 0 > advantages[1]
            assert advantages[61:] == [0.0] * 102
    reasons = [reason for answer in answers for reason in answer["reasons"][61:161]]
    assert counts == [reasons.count("ok"), reasons.count("out_of_time")]


def test_the_start_of_the_fork_server_costs_no_reward(fresh_server):
    """Send a mixed batch with less time than the first job needs: an error, never rows without a reward."""
    body = {
        "task": ["score", "bioplanner"] * 32,
        "references": [SCORE_REFERENCE, "f(1)"],
        "reference_index": [0, 1] * 32,
    }
    body["responses"] = [SCORE_RESPONSE, "f(1)" + "\ng(2)" * 500] * 32
    assert post(fresh_server, "/v1/score", body, x_request_timeout="0.1").status_code == 504
    reply = post(fresh_server, "/v1/score", body)
    assert "out_of_time" not in reply.json()["reasons"]


@pytest.mark.parametrize("others", ["score", "bioplanner"])
def test_programs_of_f_strings_cost_others_nothing(own, others):
    """Send three answers of 255 KB whose f-strings took Python's parser half a minute, among 61 usual rows."""
    hostile = "f(f'" + "{x}" * 85_000 + "')"
    usual = (SCORE_RESPONSE, SCORE_REFERENCE) if others == "score" else ("f(1)\ng(2)", "f(1)\ng(2)")
    body = {
        "task": [others] * 61 + ["bioplanner"] * 3,
        "responses": [usual[0]] * 61 + [hostile] * 3,
        "references": [usual[1], "f(1)"],
        "reference_index": [0] * 61 + [1] * 3,
    }
    alone = post(own, "/v1/score", {"task": others, "responses": [usual[0]], "references": [usual[1]]})
    reply = post(own, "/v1/score", body, x_request_timeout="20")
    assert reply.status_code == 200, reply.text
    assert reply.json()["rewards"] == alone.json()["rewards"] * 61 + [0.0] * 3
    assert reply.json()["reasons"] == ["ok"] * 61 + ["too_large"] * 3


def reward_counts(client: httpx.Client) -> list[float]:
    """Return how many rewards of programs the metrics have counted, and how many programs there was no time for."""
    samples, labels = samples_of(client), {"run": "unnamed", "task": "bioplanner"}
    return [
        total_of(samples, "assay_reward_count", **labels),
        total_of(samples, "assay_responses_total", reason="out_of_time", **labels),
    ]


def test_a_client_that_disconnects_ends_the_work(own):
    with RawConnection(own.url) as connection:
        connection.send(raw_post(LONG_PROGRAMS, "Content-Type: application/json"))
        time.sleep(1)
        assert processor_seconds(descendants(own.process.pid)) > 0
    assert come_to_rest(own.process.pid)


def test_few_short_rows_need_no_process_but_compressed_ones_do(fresh_server):
    body = {"task": "bioprobench.err", "references": [True], "responses": ["[ANSWER_START]True[ANSWER_END]", "("]}
    before = descendants(fresh_server.process.pid)
    plain = post(fresh_server, "/v1/score", body)
    assert plain.json()["rewards"] == [1, 0]
    assert descendants(fresh_server.process.pid) == before
    packed = post(fresh_server, "/v1/score", gzip.compress(orjson.dumps(body)), content_encoding="gzip")
    assert packed.content == plain.content
    assert descendants(fresh_server.process.pid) > before


def test_idle_connections_leave_descriptors_for_jobs():
    """Open more connections than the service may have descriptors, then ask for rewards of another task."""
    with ready(descriptors=64) as server:
        with server.client() as client, ExitStack() as stack:
            assert client.get("/livez").status_code == 200  # connected before the others
            for _ in range(84):
                with suppress(OSError):
                    stack.enter_context(RawConnection(server.url))
            for _ in range(4):
                reply = client.post("/v1/score", content=SHORT_PROGRAMS, headers=JSON)
                assert reply.status_code in (200, 503), reply.text
                assert reply.status_code == 200 or reply.headers["retry-after"] == "1"
        deadline = time.monotonic() + 10  # until it has seen that they are closed
        while post(server, "/v1/score", SHORT_PROGRAMS).status_code != 200:
            assert time.monotonic() < deadline


def protocol(seed: int) -> tuple[str, str]:
    """Return a reference of 400 steps of random words, and the response that it is the key of."""
    words = random.Random(seed)
    keys, prose = [], []
    for number in range(1, 401):
        action, *named = (f"w{words.randrange(5_000)}" for _ in range(25))
        objects, parameters = [" ".join(pair) for pair in pairwise(named[:16])], named[16:]
        step = {"action": action, "objects": objects, "parameters": parameters}
        keys.append(f"Step {number}: {orjson.dumps(step).decode()}")
        prose.append(f"Step {number}: {' '.join([action, *objects, *parameters])}")
    key = "\n".join(keys)
    return key, f"<think>t</think><key>{key}</key><orc>{chr(10).join(prose)}</orc><note>n</note>"


def test_explanations_in_a_loop_do_not_slow_singles(own):
    """Ask for the longest explanations all the time, from four clients at once."""
    explained = orjson.dumps({"response": protocol(2)[1], "reference": protocol(1)[0]})
    statuses: list[int] = []
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            statuses.append(post(own, "/v1/explain", explained, x_request_timeout="3").status_code)

    def median() -> float:
        with connected(own.url) as connection:
            took = []
            for _ in range(200):
                began = time.perf_counter()
                assert connection.score(orjson.dumps(SINGLE))[0] == 200
                took.append(time.perf_counter() - began)
            return statistics.median(took)

    before = min(median() for _ in range(3))
    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(loop)
        time.sleep(1)
        during = median()
        for _ in range(19):  # the quietest round counts: other processes share the cores
            if during < 4 * before:
                break
            during = min(during, median())
        stop.set()
    if during >= 4 * before:  # the other processes may have begun after the first measurement
        before = max(before, min(median() for _ in range(3)))
    assert set(statuses) <= {200, 429, 504}, statuses
    assert during < 4 * before, (during, before)


def test_bytes_of_references_are_counted_per_response(own):
    """A reference of 100 KB for 2,000 responses of a word took a minute; a group of a trainer is far below."""
    body = {"task": "lexical", "references": ["word " * 20_000], "responses": ["word"] * 2_000}
    reply = post(own, "/v1/score", body)
    assert errors_of(problem_of(reply, 413)) == [("reference_index", "too_much_to_compare")]
    group = {"task": "lexical", "references": ["word " * 500], "responses": [""] * 64, "config": {"reward": "rouge_l"}}
    assert post(own, "/v1/score", group).json()["rewards"] == [0.0] * 64


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(flags, number):
    with ready(*flags) as server, ThreadPoolExecutor(1) as pool:
        for _ in range(8):
            assert post(server, "/v1/evaluate", PQA).status_code == 200
            assert post(server, GYM, {"verify_responses": [{"reward": 1}]}).status_code == 200
        started = descendants(server.process.pid)
        assert len(started) >= 2
        asking = pool.submit(post, server, "/v1/score", LONG_PROGRAMS, x_request_timeout="3")
        time.sleep(1)
        started |= descendants(server.process.pid)
        server.process.send_signal(number)
        server.process.wait(60)
        with suppress(httpx.TransportError):  # the request takes longer than the service lives
            asking.result()
        _, alive = psutil.wait_procs(started, 60)
        assert not alive

"""Evaluations and other tasks over HTTP: they end in time, do not delay the service, and leave no process."""

from __future__ import annotations

import gzip
import os
import random
import re
import signal
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from tests.http.raw_connection import post
from tests.servers import LiveServer, launched

pytestmark = pytest.mark.attack

MIB = 1 << 20
JSON = {"content-type": "application/json"}
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
    with launched("--drain-seconds", "0") as server:
        server.wait_until_ready()
        with server.client() as client:
            assert client.post("/v1/evaluate", json=PQA).status_code == 200
            assert client.post("/v1/score", content=SHORT_PROGRAMS, headers=JSON).status_code == 200
        yield server


def descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found.update(new)
        waiting += new
    return found


def running(pids: set[int]) -> set[int]:
    return {pid for pid in pids if (Path("/proc") / str(pid)).exists() and state(pid) != "Z"}


def state(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def all_end(pids: set[int], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while running(pids) and time.monotonic() < end:
        time.sleep(0.05)
    return not running(pids)


def resident(pid: int, name: str = "VmHWM") -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@contextmanager
def probed(server: LiveServer) -> Iterator[list[float]]:
    """Probe all the time; yield the list of the seconds of each probe."""
    took: list[float] = []
    begun, stop = threading.Event(), threading.Event()

    def probe() -> None:
        with server.client() as client:
            while not stop.is_set():
                started = time.perf_counter()
                assert client.get("/livez").status_code == 200
                took.append(time.perf_counter() - started)
                begun.set()
                stop.wait(0.01)

    thread = threading.Thread(target=probe)
    thread.start()
    try:
        assert begun.wait(60)
        yield took
    finally:
        stop.set()
        thread.join()


def check_probes(took: list[float]) -> None:
    """Check that probes were answered at once; one may be late on a busy machine."""
    assert took
    late = sorted(took)[-2:]
    assert len(late) < 2 or late[0] < 0.5, late
    assert max(late, default=0.0) < 2, late


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=() if shape in QUICK else pytest.mark.slow) for shape in sorted(HOSTILE)]
)
def test_hostile_documents_do_not_block_the_service(own, shape):
    body = gzip.compress(HOSTILE[shape](), 1)
    headers = {**JSON, "content-encoding": "gzip", "x-request-timeout": "15"}
    with own.client() as client, probed(own) as took:
        reply = client.post("/v1/evaluate", content=body, headers=headers)
    assert reply.status_code in (400, 413, 422, 504), reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    check_probes(took)
    assert resident(own.process.pid) < 784 * MIB, resident(own.process.pid) / MIB


def test_a_long_valid_body(own):
    """Almost as long as the limit."""
    record = {"response": "word " * 200, "reference": {"steps": [{"action": "a", "objects": [], "parameters": []}]}}
    body = orjson.dumps({"records": [record] * 57_000})
    assert 58 * MIB < len(body) < 64 * MIB
    with own.client() as client, probed(own) as took:
        reply = client.post("/v1/evaluate", content=body, headers=JSON)
    assert reply.status_code == 200, reply.text
    assert reply.json()["aggregate"]["count"] == 57_000
    check_probes(took)
    assert resident(own.process.pid) < 784 * MIB, resident(own.process.pid) / MIB


@pytest.mark.parametrize("route", ["/v1/score", "/v1/evaluate"])
def test_programs_end_at_the_deadline(own, route):
    record = {"ground_truth": PROGRAM, "prediction_code": PROGRAM}
    evaluation = orjson.dumps({"task": "bioplanner", "records": [record] * 100})
    body = LONG_PROGRAMS if route == "/v1/score" else evaluation
    single = {"references": ['Step 1: {"action": "a", "objects": ["b"], "parameters": []}'], "responses": ["x"]}
    with own.client() as client, probed(own) as took, own.client() as other:
        begun = time.perf_counter()
        replies: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: replies.append(client.post(route, content=body, headers={**JSON, "x-request-timeout": "2"}))
        )
        asking.start()
        scored = 0
        while asking.is_alive():
            assert other.post("/v1/score", json=single).status_code == 200
            scored += 1
        asking.join()
    assert replies[0].status_code == 504, replies[0].text
    assert time.perf_counter() - begun < 10
    assert scored > 20
    check_probes(took)
    assert come_to_rest(own.process.pid)


SCORE_REFERENCE = 'Step 1: {"action": "a", "objects": ["b"], "parameters": []}'
SCORE_RESPONSE = f"<think>t</think><key>{SCORE_REFERENCE}</key><orc>Step 1: a b</orc><note>n</note>"


@pytest.mark.attack
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
        began = time.perf_counter()
        reply = client.post("/v1/score", json=body, headers={"x-request-timeout": "4"})
        took = time.perf_counter() - began
        late = client.post("/v1/score", json=body, headers={"x-request-timeout": "0.3"})
        counts = [after - before for before, after in zip(counts, reward_counts(client), strict=True)]
    assert (reply.status_code, late.status_code) == (200, 200), reply.text
    assert took < 4.5
    for answer in (reply.json(), late.json()):
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
    assert reply.json()["reasons"].count("ok") > 31  # programs that were scored in time
    reasons = reply.json()["reasons"][61:161] + late.json()["reasons"][61:161]
    assert counts == [reasons.count("ok"), reasons.count("out_of_time")]


@pytest.mark.attack
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
    with own.client() as client:
        alone = client.post("/v1/score", json={"task": others, "responses": [usual[0]], "references": [usual[1]]})
        reply = client.post("/v1/score", json=body, headers={"x-request-timeout": "20"})
    assert reply.status_code == 200, reply.text
    assert reply.json()["rewards"] == alone.json()["rewards"] * 61 + [0.0] * 3
    assert reply.json()["reasons"] == ["ok"] * 61 + ["too_large"] * 3


def reward_counts(client: httpx.Client) -> list[float]:
    """Return how many rewards of programs the metrics have counted, and how many programs there was no time for."""
    text = client.get("/metrics").text
    labels = 'run="unnamed",task="bioplanner"'
    names = (f"assay_reward_count{{{labels}}}", f'assay_responses_total{{reason="out_of_time",{labels}}}')
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines())
    return [float(lines.get(name, 0)) for name in names]


def processor_seconds(pids: set[int]) -> float:
    ticks = 0
    for pid in running(pids):
        fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def come_to_rest(pid: int) -> bool:
    """Return whether the descendants of a process, which have work for half a minute, stop working in ten seconds."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        busy = processor_seconds(descendants(pid))
        time.sleep(0.5)
        if processor_seconds(descendants(pid)) - busy < 0.2:
            return True
    return False


def test_a_client_that_disconnects_ends_the_work(own):
    address = urlsplit(own.url)
    with socket.create_connection((str(address.hostname), address.port)) as connection:
        connection.sendall(post(LONG_PROGRAMS, "Content-Type: application/json"))
        time.sleep(1)
        assert processor_seconds(descendants(own.process.pid)) > 0
    assert come_to_rest(own.process.pid)


def test_compressed_requests_for_other_tasks(own):
    body = {"task": "bioplanner", "references": ["f()"], "responses": ["f()", "g()", "("]}
    with own.client() as client:
        plain = client.post("/v1/score", json=body)
        packed = client.post(
            "/v1/score", content=gzip.compress(orjson.dumps(body)), headers={**JSON, "content-encoding": "gzip"}
        )
    assert plain.json()["rewards"] == [1, 0, 0]
    assert packed.content == plain.content


def test_few_short_rows_need_no_process(fresh_server):
    body = {"task": "bioprobench.err", "references": [True], "responses": ["[ANSWER_START]True[ANSWER_END]"]}
    before = descendants(fresh_server.process.pid)
    with fresh_server.client() as client:
        reply = client.post("/v1/score", json=body)
        assert reply.json()["rewards"] == [1]
        assert descendants(fresh_server.process.pid) == before
        packed = client.post(
            "/v1/score", content=gzip.compress(orjson.dumps(body)), headers={**JSON, "content-encoding": "gzip"}
        )
        assert packed.content == reply.content
        assert descendants(fresh_server.process.pid) > before


@pytest.mark.attack
def test_idle_connections_leave_descriptors_for_jobs():
    """Open more connections than the service may have descriptors, then ask for rewards of another task."""
    with launched("--drain-seconds", "0", descriptors=64) as server:
        server.wait_until_ready()
        address = urlsplit(server.url)
        with server.client() as client, ExitStack() as stack:
            assert client.get("/livez").status_code == 200  # connected before the others
            for _ in range(84):
                with suppress(OSError):
                    stack.enter_context(socket.create_connection((str(address.hostname), address.port)))
            for _ in range(4):
                reply = client.post("/v1/score", content=SHORT_PROGRAMS, headers=JSON)
                assert reply.status_code in (200, 503), reply.text
                assert reply.status_code == 200 or reply.headers["retry-after"] == "1"
        with server.client() as client:
            assert client.post("/v1/score", content=SHORT_PROGRAMS, headers=JSON).status_code == 200


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


@pytest.mark.attack
def test_explanations_in_a_loop_do_not_slow_singles(own):
    """Ask for the longest explanations all the time, from four clients at once."""
    reference, _ = protocol(1)
    _, response = protocol(2)
    explained = orjson.dumps({"response": response, "reference": reference})
    single = {"references": [SCORE_REFERENCE], "responses": [SCORE_RESPONSE]}
    statuses: list[int] = []
    stop = threading.Event()

    def loop() -> None:
        with own.client() as client:
            while not stop.is_set():
                headers = {**JSON, "x-request-timeout": "3"}
                statuses.append(client.post("/v1/explain", content=explained, headers=headers).status_code)

    def median() -> float:
        with own.client() as client:
            took = []
            for _ in range(200):
                began = time.perf_counter()
                assert client.post("/v1/score", json=single).status_code == 200
                took.append(time.perf_counter() - began)
            return statistics.median(took)

    before = min(median() for _ in range(3))
    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        time.sleep(1)
        during = min(median() for _ in range(3))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert set(statuses) <= {200, 429, 504}, statuses
    assert during < 4 * before, (during, before)


def test_bytes_of_references_are_counted_per_response(own):
    body = {"task": "lexical", "references": ["word " * 20_000], "responses": ["word"] * 20_000}
    with own.client() as client:
        reply = client.post("/v1/score", json=body)
    assert reply.status_code == 413, reply.text
    assert [error["reason"] for error in reply.json()["errors"]] == ["too_much_to_compare"]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--workers", "2")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left(flags, number):
    with launched("--drain-seconds", "0", *flags) as server:
        server.wait_until_ready()
        with server.client() as client:
            for _ in range(8):
                assert client.post("/v1/evaluate", json=PQA).status_code == 200
                assert client.post(GYM, json={"verify_responses": [{"reward": 1}]}).status_code == 200
            started = descendants(server.process.pid)
            assert len(started) >= 2
            asking = threading.Thread(target=ask_and_forget, args=(server,))
            asking.start()
            time.sleep(1)
            started |= descendants(server.process.pid)
        server.process.send_signal(number)
        server.process.wait(60)
        asking.join()
        assert all_end(started), running(started)


def ask_and_forget(server: LiveServer) -> None:
    """Send a request that takes longer than the service lives."""
    headers = {**JSON, "x-request-timeout": "3"}
    try:
        with server.client() as client:
            client.post("/v1/score", content=LONG_PROGRAMS, headers=headers)
    except httpx.TransportError:
        return

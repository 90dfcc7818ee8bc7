"""The benchmarks: ways to process the same batch, in this process and over HTTP."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import orjson

from ..extras import in_this_shell, install_command
from ..rewards.scorer import Scorer
from . import TITLES
from .bare_server import bare_reply
from .checkout import plain_scorer
from .load_generator import Plan
from .measure import Benchmark, BenchmarkError, Run, Start, WrongAnswerError, clocked, without_setup
from .servers import ServerProcess, bare_server, service

__all__ = ["arrow_rewards", "build", "bursts", "in_process", "over_http", "singles", "some_rows"]

Request = dict[str, Any]
Columns = tuple[list[str], list[Any], list[int]]  # responses, references and reference index of a request
Score = Callable[[list[str], list[Any], list[int]], Sequence[float] | np.ndarray]
StartServer = Callable[[], AbstractContextManager[ServerProcess]]
SCORE = "/v1/score"
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
PLAIN_TOLERANCE = 1e-12
DISTINCT = 512  # distinct requests with one response each, which are repeated
MAX_SECONDS = 120.0


def build(names: Collection[str], request: Request, sizes: Mapping[str, int]) -> tuple[list[Benchmark], dict[str, str]]:
    """Return the benchmarks with these names, and why others are skipped; raises NotACheckoutError."""
    batch = request["responses"], request["references"], request["reference_index"]
    rewards = Scorer().score(*batch).rewards
    expected, count = rewards.tolist(), len(rewards)
    plain_count, single_count = min(sizes["plain_responses"], count), sizes["singles"]
    body, rows = orjson.dumps(request), some_rows(count)
    send_singles = partial(singles, [single_body(request, row) for row in rows], single_count, sizes["connections"])
    replies, bare_replies = [{"rewards": [expected[row]]} for row in rows], [bare_reply(1)] * len(rows)

    def read_json(reply: bytes) -> Any:
        return orjson.loads(reply)["rewards"]

    def arrow() -> Start:
        return partial(over_http, service, arrow_stream(request), ARROW, arrow_rewards, expected)

    def plain() -> Start:
        index = request["reference_index"][:plain_count]
        first = request["responses"][:plain_count], request["references"][: max(index) + 1], index
        return without_setup(in_process(plain_scorer(), first, rewards[:plain_count], PLAIN_TOLERANCE))

    makers: dict[str, tuple[int, Callable[[], Start]]] = {
        "in_process": (count, lambda: without_setup(in_process(scorer(1), batch, rewards))),
        "in_process_all_cores": (count, lambda: without_setup(in_process(scorer(None), batch, rewards))),
        "http_json": (count, lambda: partial(over_http, service, body, JSON, read_json, expected)),
        "http_arrow": (count, arrow),
        "floor": (count, lambda: partial(over_http, bare_server, body, JSON, orjson.loads, bare_reply(count))),
        "singles": (single_count, lambda: partial(send_singles, service, replies)),
        "singles_bare": (single_count, lambda: partial(send_singles, bare_server, bare_replies)),
        "plain_python": (plain_count, plain),
    }
    benchmarks: list[Benchmark] = []
    skipped: dict[str, str] = {}
    for name, (responses, make) in makers.items():
        try:
            if name in names:
                benchmarks.append(Benchmark(name, TITLES[name], responses, make()))
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            skipped[name] = f"pyarrow is not installed: {in_this_shell(install_command('arrow'))}"
    return benchmarks, skipped


def in_process(score: Score, batch: Columns, rewards: np.ndarray, tolerance: float = 0.0) -> Callable[[], Run]:

    def run() -> Run:
        computed, run = clocked(lambda: score(*batch), time.process_time)
        if not np.allclose(computed, rewards, rtol=0, atol=tolerance):
            raise WrongAnswerError("the rewards differ between two runs of the kernels")
        return run

    return run


def scorer(threads: int | None) -> Score:
    scorer = Scorer(threads=threads)
    return lambda *batch: scorer.score(*batch).rewards


@contextmanager
def over_http(
    start: StartServer, body: bytes, media_type: str, read: Callable[[bytes], Any], expected: Any
) -> Iterator[Callable[[], Run]]:
    """Send a body to a server on a persistent connection; `read` must return `expected` for each reply."""
    with start() as server:

        def run() -> Run:
            reply, run = server.timed_post(SCORE, body, media_type)
            if read(reply) != expected:
                raise WrongAnswerError("the reply is not the expected one")
            return run

        yield run


def arrow_rewards(reply: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(reply) as reader:
        return reader.read_all().column("reward").to_pylist()


def arrow_stream(request: Request) -> bytes:
    import pyarrow as pa

    index = pa.array(request["reference_index"], pa.int32())
    reference = pa.DictionaryArray.from_arrays(index, pa.array(request["references"], pa.string()))
    response = pa.array(request["responses"], pa.large_string())
    batch = pa.RecordBatch.from_arrays([response, reference], ["response", "reference"])
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, batch.schema) as writer:
        writer.write_batch(batch)
    stream: bytes = buffer.getvalue().to_pybytes()
    return stream


@contextmanager
def singles(
    bodies: list[str], count: int, connections: int, start: StartServer, expected: list[dict[str, Any]]
) -> Iterator[Callable[[], Run]]:
    with start() as server:
        plan = Plan(
            port=server.port,
            server_pid=server.pid,
            connections=connections,
            path=SCORE,
            bodies=bodies,
            expected=expected,
            seconds=MAX_SECONDS,
        )
        with bursts(plan) as send:
            yield lambda: send(count)


def some_rows(rows: int) -> list[int]:
    distinct = min(rows, DISTINCT)
    return [k * rows // distinct for k in range(distinct)]


def single_body(request: Request, row: int) -> str:
    reference = request["references"][request["reference_index"][row]]
    return orjson.dumps({"references": [reference], "responses": [request["responses"][row]]}).decode()


@contextmanager
def bursts(plan: Plan) -> Iterator[Callable[[int], Run]]:
    """Start a load generator process; yield the function that sends requests with it, which raises BenchmarkError."""
    command = [sys.executable, "-m", f"{__package__}.load_generator"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    orders, outcomes = process.stdin, process.stdout

    def write_line(line: bytes) -> None:
        orders.write(line + b"\n")
        orders.flush()

    def send(requests: int) -> Run:
        write_line(b"%d" % requests)
        line = outcomes.readline()
        if not line:
            raise BenchmarkError("the load generator ended")
        outcome = orjson.loads(line)
        if "failed" in outcome:
            raise BenchmarkError(f"the load generator: {outcome['failed']}")
        if outcome["wrong"]:
            raise WrongAnswerError(outcome["wrong"])
        return Run(outcome["seconds"], outcome["cpu_seconds"], outcome["client_seconds"])

    try:
        write_line(orjson.dumps(plan))
        yield send
    finally:
        process.terminate()
        process.communicate()

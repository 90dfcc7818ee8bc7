"""The benchmarks: ways to process the same batch, in this process and over HTTP."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import orjson

from ..scoring.scorer import Scorer
from . import TITLES
from .bare_server import bare_reply
from .checkout import plain_scorer
from .load_generator import Plan
from .measure import Benchmark, BenchmarkError, Run, WrongAnswerError, clocked
from .servers import ServerProcess, bare_server, service

__all__ = ["Bursts", "Prepared", "Size", "arrow_rewards", "build", "in_process", "over_http", "singles", "some_rows"]

Request = dict[str, Any]
"""The body of POST /v1/score, decoded."""

Batch = tuple[list[str], list[Any], list[int]]
"""Its responses, references and reference index."""

Score = Callable[[list[str], list[Any], list[int]], Sequence[float] | np.ndarray]
"""Returns the rewards of a batch."""

Start = Callable[[], AbstractContextManager[Callable[[], Run]]]
StartServer = Callable[[], AbstractContextManager[ServerProcess]]

SCORE = "/v1/score"
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
WITHOUT_PYARROW = "pyarrow is not installed (assay[arrow])"

PLAIN_TOLERANCE = 1e-12

DISTINCT = 512
"""Maximum number of distinct requests with one response each, which are repeated."""

MAX_SECONDS = 120.0
"""Timeout of a burst."""


class Size(NamedTuple):
    """Number of requests per run and of connections."""

    requests: int
    connections: int


def build(
    names: Collection[str], request: Request, plain_count: int, size: Size
) -> tuple[list[Benchmark], dict[str, str]]:
    """Return the benchmarks with these names, and the skipped ones with the reason.

    Computes the rewards that they are checked against; plain Python verifies these. Raises NotACheckoutError.
    """
    batch = request["responses"], request["references"], request["reference_index"]
    rewards = Scorer().score(*batch).rewards
    known, count = rewards.tolist(), len(rewards)
    plain_count = min(plain_count, count)
    body, rows = orjson.dumps(request), some_rows(count)
    bodies = [single_body(request, row) for row in rows]
    own, bare = [{"rewards": [known[row]]} for row in rows], [bare_reply(1)] * len(rows)
    makers: dict[str, Callable[[], Start]] = {
        "in_process": lambda: partial(in_process, scorer(1), batch, rewards),
        "in_process_all_cores": lambda: partial(in_process, scorer(None), batch, rewards),
        "http_json": lambda: partial(over_http, service, body, JSON, json_rewards, known),
        "http_arrow": lambda: partial(over_http, service, arrow_stream(request), ARROW, arrow_rewards, known),
        "floor": lambda: partial(over_http, bare_server, body, JSON, orjson.loads, bare_reply(count)),
        "singles": lambda: partial(singles, service, bodies, own, size),
        "singles_bare": lambda: partial(singles, bare_server, bodies, bare, size),
        "plain_python": lambda: partial(
            in_process, plain_scorer(), first_responses(batch, plain_count), rewards[:plain_count], PLAIN_TOLERANCE
        ),
    }
    sizes = {"singles": size.requests, "singles_bare": size.requests, "plain_python": plain_count}
    benchmarks: list[Benchmark] = []
    skipped: dict[str, str] = {}
    for name in makers:
        try:
            if name in names:
                benchmarks.append(Prepared(name, TITLES[name], sizes.get(name, count), makers[name]()))
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            skipped[name] = WITHOUT_PYARROW
    return benchmarks, skipped


class Prepared:
    """A benchmark with `start`: a context that sets it up and yields the function that runs it once."""

    def __init__(self, name: str, title: str, responses: int, start: Start) -> None:
        self.name, self.title, self.responses = name, title, responses
        self._start = start

    def __enter__(self) -> Self:
        self._context = self._start()
        self._run = self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def run(self) -> Run:
        try:
            return self._run()
        except WrongAnswerError as error:
            raise WrongAnswerError(f"{self.title}: {error}") from None


@contextmanager
def in_process(score: Score, batch: Batch, rewards: np.ndarray, tolerance: float = 0.0) -> Iterator[Callable[[], Run]]:
    """Score strings with a function in this process; its rewards may differ by `tolerance`."""

    def run() -> Run:
        found, run = clocked(lambda: score(*batch), time.process_time)
        if not np.allclose(found, rewards, rtol=0, atol=tolerance):
            raise WrongAnswerError("the rewards differ from those of another run of the kernels")
        return run

    yield run


def scorer(threads: int | None) -> Score:
    """Return a function that scores with this number of threads; None for one per core."""
    scorer = Scorer(threads=threads)
    return lambda *batch: scorer.score(*batch).rewards


def first_responses(batch: Batch, count: int) -> Batch:
    """Return the first `count` responses, and the references that they need."""
    responses, references, index = batch
    return responses[:count], references[: max(index[:count]) + 1], index[:count]


@contextmanager
def over_http(
    start: StartServer, body: bytes, media_type: str, read: Callable[[bytes], Any], expected: Any
) -> Iterator[Callable[[], Run]]:
    """Send a body to a server on a persistent connection; what `read` returns for the reply must be `expected`."""
    with start() as server:

        def run() -> Run:
            reply, run = server.timed_post(SCORE, body, media_type)
            if read(reply) != expected:
                raise WrongAnswerError("the reply is not the expected one")
            return run

        yield run


def json_rewards(reply: bytes) -> Any:
    return orjson.loads(reply)["rewards"]


def arrow_rewards(reply: bytes) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(reply) as reader:
        return reader.read_all().column("reward").to_pylist()


def arrow_stream(request: Request) -> bytes:
    """Encode the request as one record batch: responses, and a dictionary of references. Needs pyarrow."""
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
    start: StartServer, bodies: list[str], expected: list[dict[str, Any]], size: Size
) -> Iterator[Callable[[], Run]]:
    """Send bodies with one response each over many persistent connections; fields of every reply are compared."""
    with start() as server:
        plan = Plan(server.port, server.pid, size.connections, SCORE, bodies, expected, MAX_SECONDS)
        with Bursts(plan) as bursts:
            yield lambda: bursts.burst(size.requests)


def some_rows(rows: int) -> list[int]:
    """Return at most DISTINCT rows, spread evenly over a batch."""
    distinct = min(rows, DISTINCT)
    return [k * rows // distinct for k in range(distinct)]


def single_body(request: Request, row: int) -> str:
    """Return the body of a request for one row."""
    reference = request["references"][request["reference_index"][row]]
    return orjson.dumps({"references": [reference], "responses": [request["responses"][row]]}).decode()


class Bursts:
    """Sends bursts on demand by a load generator in a separate process."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", f"{__package__}.load_generator"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._write_line(orjson.dumps(self._plan._asdict()))
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.communicate()

    def burst(self, requests: int) -> Run:
        """Send `requests` requests; raises WrongAnswerError, or BenchmarkError if replies are missing."""
        self._write_line(b"%d" % requests)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchmarkError("the load generator ended")
        outcome = orjson.loads(line)
        if "failed" in outcome:
            raise BenchmarkError(f"the load generator: {outcome['failed']}")
        if outcome["wrong"]:
            raise WrongAnswerError(outcome["wrong"])
        return Run(outcome["seconds"], outcome["cpu_seconds"], outcome["client_seconds"])

    def _write_line(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

"""The benchmarks: ways to process the same batch, in this process and over HTTP."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, NamedTuple, Self

import numpy as np
import orjson

from ..scoring.scorer import Scorer
from .bare_server import bare_reply
from .checkout import plain_scorer
from .load_generator import Plan
from .measure import Benchmark, BenchmarkError, Run, WrongAnswerError, clocked
from .servers import ServerProcess, bare_server, service

__all__ = ["Bursts", "InProcess", "OverHttp", "Singles", "Size", "arrow_rewards", "build", "some_rows"]

Request = dict[str, Any]
"""The body of POST /v1/score, decoded."""

Batch = tuple[list[str], list[Any], list[int]]
"""Its responses, references and reference index."""

Score = Callable[[list[str], list[Any], list[int]], Sequence[float] | np.ndarray]
"""Returns the rewards of a batch."""

Start = Callable[[], AbstractContextManager[ServerProcess]]

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
    names: Collection[str], request: Request, plain_responses: int, size: Size
) -> tuple[list[Benchmark], dict[str, str]]:
    """Return the benchmarks with these names, and the skipped ones with the reason.

    Computes the rewards that they are checked against; plain Python verifies these. Raises NotACheckoutError.
    """
    batch = request["responses"], request["references"], request["reference_index"]
    rewards = Scorer().score(*batch).rewards
    known, count = rewards.tolist(), len(rewards)
    body, rows = orjson.dumps(request), some_rows(count)
    bodies = [single_body(request, row) for row in rows]
    own, bare = [{"rewards": [known[row]]} for row in rows], [bare_reply(1)] * len(rows)
    floor = "floor: read, orjson.loads, constant reply"
    makers: dict[str, Callable[[str], Benchmark]] = {
        "in_process": lambda name: InProcess(name, "in process, 1 thread", scorer(1), batch, rewards),
        "in_process_all_cores": lambda name: InProcess(name, "in process, all cores", scorer(None), batch, rewards),
        "http_json": lambda name: OverHttp(name, "over HTTP, JSON", service, (body, count), json_rewards, known),
        "http_arrow": lambda name: OverHttp(
            name, "over HTTP, Arrow", service, (arrow_stream(request), count), arrow_rewards, known, ARROW
        ),
        "floor": lambda name: OverHttp(name, floor, bare_server, (body, count), orjson.loads, bare_reply(count)),
        "singles": lambda name: Singles(name, "singles over HTTP", service, bodies, own, size),
        "singles_bare": lambda name: Singles(name, "singles to a bare route", bare_server, bodies, bare, size),
        "plain_python": lambda name: plain_python(name, request, rewards, plain_responses),
    }
    benchmarks, skipped = [], {}
    for name in makers:
        try:
            if name in names:
                benchmarks.append(makers[name](name))
        except ModuleNotFoundError as error:
            if error.name != "pyarrow":
                raise
            skipped[name] = WITHOUT_PYARROW
    return benchmarks, skipped


class InProcess:
    """Scores strings with a function in this process; rewards may differ by `tolerance`."""

    def __init__(
        self, name: str, title: str, score: Score, batch: Batch, rewards: np.ndarray, tolerance: float = 0.0
    ) -> None:
        self.name, self.title, self.responses = name, title, len(rewards)
        self._score = score
        self._batch = batch
        self._rewards = rewards
        self._tolerance = tolerance

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self) -> Run:
        rewards, run = clocked(lambda: self._score(*self._batch), time.process_time)
        if not np.allclose(rewards, self._rewards, rtol=0, atol=self._tolerance):
            raise WrongAnswerError(f"{self.title}: the rewards differ from those of another run of the kernels")
        return run


def scorer(threads: int | None) -> Score:
    """Return a function that scores with this number of threads; None for one per core."""
    scorer = Scorer(threads=threads)
    return lambda *batch: scorer.score(*batch).rewards


def plain_python(name: str, request: Request, rewards: np.ndarray, responses: int) -> InProcess:
    """Return the benchmark of the textbook scorer: it is slow, so it scores only the first `responses` responses."""
    index = request["reference_index"][:responses]
    batch = request["responses"][:responses], request["references"][: max(index) + 1], index
    return InProcess(name, "plain Python, 1 thread", plain_scorer(), batch, rewards[:responses], PLAIN_TOLERANCE)


class OverHttp:
    """Sends a body to a server on a persistent connection: the full round trip.

    body: its bytes, and the number of responses in it. What `read` returns for the reply must be `expected`.
    """

    def __init__(
        self,
        name: str,
        title: str,
        start: Start,
        body: tuple[bytes, int],
        read: Callable[[bytes], Any],
        expected: Any,
        media_type: str = JSON,
    ) -> None:
        self.name, self.title = name, title
        self._start = start
        self._body, self.responses = body
        self._read = read
        self._expected = expected
        self._media_type = media_type

    def __enter__(self) -> Self:
        self._running = self._start()
        self._server = self._running.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._running.__exit__(None, None, None)

    def run(self) -> Run:
        reply, run = self._server.timed_post(SCORE, self._body, self._media_type)
        if self._read(reply) != self._expected:
            raise WrongAnswerError(f"{self.title}: the reply is not the expected one")
        return run


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


class Singles:
    """Sends bodies with one response each over many persistent connections; fields of every reply are compared."""

    def __init__(
        self,
        name: str,
        title: str,
        start: Start,
        bodies: list[str],
        expected: list[dict[str, Any]],
        size: Size,
    ) -> None:
        self.name, self.title = name, title
        self.responses, self._connections = size
        self._start = start
        self._bodies = bodies
        self._expected = expected

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            server = stack.enter_context(self._start())
            plan = Plan(server.port, server.pid, self._connections, SCORE, self._bodies, self._expected, MAX_SECONDS)
            self._bursts = stack.enter_context(Bursts(plan))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def run(self) -> Run:
        return self._bursts.burst(self.responses)


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

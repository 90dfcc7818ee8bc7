"""Benchmarks: ways to process the same batch, in this process and over HTTP, in turns."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..service.rewards.scorer import Scorer
from ..service.wording import in_this_shell, install_command
from . import TITLES
from .servers import (
    BenchmarkError,
    BenchRun,
    ServerProcess,
    WrongAnswerError,
    as_request,
    bare_server,
    service,
    timed_exchange,
)

Request = dict[str, Any]
Columns = tuple[list[str], list[Any], list[int]]  # responses, references and reference index of a request
Score = Callable[[list[str], list[Any], list[int]], Sequence[float] | np.ndarray]
Read = Callable[[bytearray], Any]
Server = Callable[[], ServerProcess]
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"
STEPS_QUERY = "?include=steps"
PLAIN_TOLERANCE = 1e-12
DISTINCT = 512  # distinct requests with one response each, which are repeated
NO_TWIN = "the scorer in plain Python is in a checkout of Assay, not in the package"


Start = Callable[[], AbstractContextManager[Callable[[], BenchRun]]]
"""Sets up a benchmark, untimed; yields the function that processes the responses once and raises BenchmarkError."""


class Benchmark(NamedTuple):
    name: str
    title: str
    responses: int
    start: Start


class Timing(NamedTuple):
    name: str
    title: str
    responses: int
    runs: tuple[BenchRun, ...]

    @property
    def seconds(self) -> list[float]:
        """Seconds per response, for each run."""
        return [run.seconds / self.responses for run in self.runs]

    @property
    def rate(self) -> float:
        return 1 / statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest run, as a share of the median."""
        return (max(self.seconds) - min(self.seconds)) / statistics.median(self.seconds)

    @property
    def cpu_seconds(self) -> float | None:
        """Mean CPU seconds per response; None if unknown."""
        seconds = [run.cpu_seconds for run in self.runs if run.cpu_seconds is not None]
        return sum(seconds) / (len(seconds) * self.responses) if seconds else None

    @property
    def client_share(self) -> float | None:
        """CPU time of the load generator as a share of one core, over all runs; None without one."""
        times = [(run.client_seconds, run.seconds) for run in self.runs if run.client_seconds is not None]
        return sum(cpu for cpu, _ in times) / sum(seconds for _, seconds in times) if times else None


def batch_of(prompts: int, samples: int, seed: int) -> Request:
    """Generate a request of `prompts` references with `samples` responses each."""
    from ..examples.rollouts import as_request, generate

    request: Request = as_request(generate(prompts, samples, seed))
    return request


def build(names: Collection[str], request: Request, sizes: Mapping[str, int]) -> tuple[list[Benchmark], dict[str, str]]:
    """Return the benchmarks with these names, and why others are skipped."""
    batch = request["responses"], request["references"], request["reference_index"]
    scores = Scorer().score(*batch, steps=True)
    assert scores.steps is not None
    rewards = scores.rewards
    quantities = Scorer(parameter_similarity="quantities", quantity_error_factor=0.5)
    expected, count = rewards.tolist(), len(rewards)
    with_steps = {"rewards": expected, "steps": scores.steps[:]}
    plain_count, single_count = min(sizes["plain_responses"], count), sizes["singles"]
    body, rows = orjson.dumps(request), some_rows(count)
    single_bodies = [single_body(request, row) for row in rows]
    single: dict[str, Any] = {"count": single_count, "connections": sizes["connections"]}

    def http(bodies: list[bytes], read: Read, expected: list[Any], start: Server = service, **options: Any) -> Start:
        return partial(over_http, start, bodies, read, expected, **options)

    def plain() -> Start:
        from ..tests.reference.scorer import plain_score

        index = request["reference_index"][:plain_count]
        first = request["responses"][:plain_count], request["references"][: max(index) + 1], index
        return partial(in_process, plain_score, first, rewards[:plain_count], PLAIN_TOLERANCE)

    makers: dict[str, tuple[int, Callable[[], Start]]] = {
        "in_process": (count, lambda: partial(in_process, scorer(1), batch, rewards)),
        "in_process_quantities": (
            count,
            lambda: partial(in_process, scorer(1, quantities), batch, quantities.score(*batch).rewards),
        ),
        "in_process_all_cores": (count, lambda: partial(in_process, scorer(None), batch, rewards)),
        "http_json": (count, lambda: http([body], json_rewards, [expected])),
        "http_arrow": (count, lambda: http([arrow_stream(request)], arrow_rewards, [expected], media_type=ARROW)),
        "http_json_steps": (
            count,
            lambda: http([orjson.dumps(request | {"include": ["steps"]})], json_with_steps, [with_steps]),
        ),
        "http_arrow_steps": (
            count,
            lambda: http([arrow_stream(request)], arrow_with_steps, [with_steps], media_type=ARROW, query=STEPS_QUERY),
        ),
        "floor": (count, lambda: http([body], orjson.loads, [{"responses": count}], bare_server)),
        "singles": (
            single_count,
            lambda: http(single_bodies, json_rewards, [[expected[row]] for row in rows], **single),
        ),
        "singles_bare": (
            single_count,
            lambda: http(single_bodies, orjson.loads, [{"responses": 1}] * len(rows), bare_server, **single),
        ),
        "plain_python": (plain_count, plain),
    }
    reasons = {"plain_python": NO_TWIN}
    reasons["http_arrow"] = reasons["http_arrow_steps"] = (
        f"pyarrow is not installed: {in_this_shell(install_command('arrow'))}"
    )
    benchmarks: list[Benchmark] = []
    skipped: dict[str, str] = {}
    for name, (responses, make) in makers.items():
        try:
            if name in names:
                benchmarks.append(Benchmark(name, TITLES[name], responses, make()))
        except ModuleNotFoundError:
            if name not in reasons:
                raise
            skipped[name] = reasons[name]
    return benchmarks, skipped


@contextmanager
def in_process(
    score: Score, batch: Columns, rewards: np.ndarray, tolerance: float = 0.0
) -> Iterator[Callable[[], BenchRun]]:
    def run() -> BenchRun:
        cpu_before, started = time.process_time(), time.perf_counter()
        computed = score(*batch)
        run = BenchRun(time.perf_counter() - started, time.process_time() - cpu_before)
        if not np.allclose(computed, rewards, rtol=0, atol=tolerance):
            raise WrongAnswerError("the rewards differ between two runs of the kernels")
        return run

    yield run


def scorer(threads: int | None, like: Scorer | None = None) -> Score:
    scorer = Scorer(like.settings if like else None, threads=threads)
    return lambda *batch: scorer.score(*batch).rewards


@contextmanager
def over_http(
    start: Server,
    bodies: Sequence[bytes],
    read: Read,
    expected: Sequence[Any],
    *,
    media_type: str = JSON,
    query: str = "",
    count: int = 1,
    connections: int = 1,
) -> Iterator[Callable[[], BenchRun]]:
    """Send `count` bodies in turn, repeated as need be; `read` must return what is expected for each of them."""
    with start() as server:
        requests = [as_request(server.port, f"/v1/score{query}", body, media_type) for body in bodies]

        def run() -> BenchRun:
            replies, run = timed_exchange(server, requests, count, connections)
            for number, reply in enumerate(replies):
                if read(reply) != expected[number % len(expected)]:
                    raise WrongAnswerError(f"the reply to request {number} is not the expected one")
            return run

        yield run


def json_rewards(reply: bytearray) -> Any:
    return orjson.loads(reply)["rewards"]


def json_with_steps(reply: bytearray) -> Any:
    document = orjson.loads(reply)
    return {name: document[name] for name in ("rewards", "steps")}


def arrow_rewards(reply: bytearray) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(reply) as reader:
        return reader.read_all().column("reward").to_pylist()


def arrow_with_steps(reply: bytearray) -> Any:
    import pyarrow as pa

    with pa.ipc.open_stream(reply) as reader:
        table = reader.read_all()
    return {"rewards": table.column("reward").to_pylist(), "steps": table.column("steps").to_pylist()}


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


def some_rows(rows: int) -> list[int]:
    distinct = min(rows, DISTINCT)
    return [k * rows // distinct for k in range(distinct)]


def single_body(request: Request, row: int) -> bytes:
    reference = request["references"][request["reference_index"][row]]
    return orjson.dumps({"references": [reference], "responses": [request["responses"][row]]})


def measure(benchmarks: Sequence[Benchmark], repeats: int, seed: int = 0) -> list[Timing]:
    """Run every benchmark once untimed, then `repeats` times in turns, in a random order each time."""
    dice = random.Random(seed)
    work: dict[str, Callable[[], BenchRun]] = {}
    runs: dict[str, list[BenchRun]] = {benchmark.name: [] for benchmark in benchmarks}

    def run(benchmark: Benchmark) -> BenchRun:
        try:
            return work[benchmark.name]()
        except BenchmarkError as error:
            raise type(error)(f"{benchmark.title}: {error}") from None

    with ExitStack() as stack:
        for benchmark in benchmarks:
            work[benchmark.name] = stack.enter_context(benchmark.start())
            run(benchmark)
        for _ in range(repeats):
            for benchmark in dice.sample(benchmarks, len(benchmarks)):
                runs[benchmark.name].append(run(benchmark))
    return [Timing(name, title, responses, tuple(runs[name])) for name, title, responses, _ in benchmarks]

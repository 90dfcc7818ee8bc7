"""Benchmarks: ways to process the same batch, in this process and over HTTP; their results as text and JSON.

Ratios come first, as they are comparable across machines.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..rewards.scorer import Scorer
from ..settings import usable_cores
from ..tables.table import Row, Table
from ..version import VERSION
from ..wording import in_this_shell, install_command
from . import TITLES
from .bare_server import bare_reply
from .load_generator import Plan
from .measure import (
    Benchmark,
    BenchmarkError,
    Run,
    ServerProcess,
    Start,
    Timing,
    WrongAnswerError,
    bare_server,
    clocked,
    plain_scorer,
    service,
    without_setup,
)

PACKAGES = ("numba", "numpy", "orjson", "starlette", "uvicorn", "uvloop", "httptools", "pyarrow")
MISSED = (
    "missed: slower than the goal, which assumes an idle machine; the results are still correct. Repeat on an idle "
    "machine; if the CPU ratio misses the goal too, this machine is slower or a code change made Assay slower."
)

BUSY_CLIENT = 0.9  # share of a core above which the load generator may be the bottleneck
BUSY_MACHINE = 0.5  # runnable processes per core before the start, above which times are unreliable


class Ratio(NamedTuple):
    """Time per response of one benchmark over the time of another, and the goal: a lower or an upper bound."""

    name: str
    title: str
    of: str
    over: str
    bound: tuple[str, float] | None = None  # the goal, if any: `≥` or `≤`, and the number
    cpu: bool = True  # whether the ratio of CPU times is meaningful: more threads save time, not work

    @property
    def goal(self) -> str | None:
        return "{} {:g}".format(*self.bound) if self.bound else None

    def met(self, ratio: float) -> bool | None:
        if self.bound is None:
            return None
        sign, number = self.bound
        return ratio >= number if sign == "≥" else ratio <= number


RATIOS = (
    Ratio("in_process_speedup", "in process, times as fast as plain Python", "plain_python", "in_process", ("≥", 20)),
    Ratio(
        "all_cores_speedup",
        "all cores, times as fast as one thread",
        "in_process",
        "in_process_all_cores",
        ("≥", 1.7),
        cpu=False,
    ),
    Ratio("http_over_floor", "HTTP JSON, time over the floor's", "http_json", "floor", ("≤", 1.5)),
    Ratio("arrow_over_floor", "HTTP Arrow, time over the floor's", "http_arrow", "floor", ("≤", 0.8)),
    Ratio(
        "singles_over_bare", "singles, requests per second over a bare route's", "singles_bare", "singles", ("≥", 0.7)
    ),
    Ratio("http_speedup", "HTTP JSON, times as fast as plain Python in process", "plain_python", "http_json"),
)


class Finding(NamedTuple):
    ratio: Ratio
    median: float  # over the repeats, whose two runs are close in time
    low: float
    high: float
    cpu: float | None  # ratio of CPU times over all repeats, which other processes do not affect


def findings(timings: Sequence[Timing]) -> list[Finding]:
    by_name = {timing.name: timing for timing in timings}
    measured = []
    for ratio in RATIOS:
        if ratio.of in by_name and ratio.over in by_name:
            of, over = by_name[ratio.of], by_name[ratio.over]
            each = [above / below for above, below in zip(of.seconds, over.seconds, strict=True)]
            cpu = of.cpu_seconds / over.cpu_seconds if ratio.cpu and of.cpu_seconds and over.cpu_seconds else None
            measured.append(Finding(ratio, median(each), min(each), max(each), cpu))
    return measured


def machine() -> dict[str, Any]:
    versions = {package: version(package) for package in PACKAGES if find_spec(package)}
    return {"assay": VERSION, "cores": usable_cores(), "python": platform.python_version(), **versions}


def load_average() -> float | None:
    """Return the average number of runnable processes over the last minute; None if unsupported."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


class Results(NamedTuple):
    timings: Sequence[Timing]
    batch: Mapping[str, Any]
    skipped: Mapping[str, str]  # benchmarks that could not run, with the reason
    load: float | None = None  # load average of the machine before the start


def results_json(results: Results) -> dict[str, Any]:
    return {
        "ratios": {finding.ratio.name: ratio_json(finding) for finding in findings(results.timings)},
        "batch": dict(results.batch),
        "machine": machine(),
        "load_average": results.load,
        "skipped": dict(results.skipped),
        "lanes": {
            timing.name: {
                "responses": timing.responses,
                "responses_per_second": timing.rate,
                "spread": timing.spread,
                "seconds": [run.seconds for run in timing.runs],
                "cpu_seconds": [run.cpu_seconds for run in timing.runs],
                "client_share": timing.client_share,
            }
            for timing in results.timings
        },
    }


def ratio_json(measured: Finding) -> dict[str, Any]:
    ratio, *_ = measured
    numbers = {name: value for name, value in measured._asdict().items() if name != "ratio"}
    return {**numbers, "goal": ratio.goal, "met": ratio.met(measured.median)}


def as_parts(results: Results) -> list[str | Table]:
    measured = findings(results.timings)
    ratios: list[str | Table] = ["", ratio_table(measured)] if measured else []
    return [
        "{responses:,} responses of {mean_response_bytes:,} bytes, {references:,} references, "
        "{body_bytes:,} bytes of JSON; {repeats} repeats; every result checked".format(**results.batch),
        *ratios,
        "",
        benchmark_table(results.timings),
        "",
        *notes(results),
    ]


def ratio_table(measured: Sequence[Finding]) -> Table:
    rows = []
    for ratio, middle, low, high, cpu in measured:
        missed = "missed" if ratio.met(middle) is False else ""
        shown = "" if cpu is None else f"{cpu:.2f}"
        rows.append([ratio.title, f"{middle:.2f}", f"{low:.2f} to {high:.2f}", shown, ratio.goal or "", missed])
    return Table(["ratio", "median", "range", "CPU", "goal", ""], rows)


def benchmark_table(timings: Sequence[Timing]) -> Table:
    rows: list[Row] = []
    for timing in timings:
        cpu, client, milliseconds = timing.cpu_seconds, timing.client_share, 1000 * timing.responses
        rows.append(
            [
                timing.title,
                timing.responses,
                f"{timing.rate:,.0f}",
                f"{milliseconds * median(timing.seconds):,.1f} ms",
                "" if cpu is None else f"{milliseconds * cpu:,.1f} ms",
                f"{100 * timing.spread:.0f} %",
                "" if client is None else f"{100 * client:.0f} %{' !' if is_busy(timing) else ''}",
            ]
        )
    return Table(["benchmark", "responses", "per s", "median", "CPU", "spread", "client"], rows)


def notes(results: Results) -> list[str]:
    here = machine()
    lines = [f"{TITLES[name]} is not measured: {reason}" for name, reason in results.skipped.items()]
    if any(finding.ratio.met(finding.median) is False for finding in findings(results.timings)):
        lines.append(MISSED)
    if any(map(is_busy, results.timings)):
        lines.append("! the load generator used more than 90 % of a core: the server may be faster than this")
    if results.load is not None and results.load > BUSY_MACHINE * here["cores"]:
        lines.append(f"the machine was busy before (load average {results.load:.1f}): rely on the CPU ratios")
    lines.append("CPU is the CPU time of the process that does the work; all other times are wall time.")
    lines.append("{cores} cores, Assay {assay}, Python {python}, Numba {numba}".format(**here))
    return lines


def is_busy(timing: Timing) -> bool:
    return timing.client_share is not None and timing.client_share > BUSY_CLIENT


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

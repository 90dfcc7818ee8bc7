"""How throughput grows with threads, workers and clients: the same batch in every cell of a table, in turns.

`GIL waits` needs no debugger. A thread that waits for the GIL asks for it after the switch interval, so beside a thread
that never gives it up unasked, each wait takes as long: if a batch takes d seconds longer when the interval is t
seconds longer, it has waited d / t times.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..service.settings import usable_cores
from ..service.tables.table import Row, Table
from .bench import Benchmark, Columns, Request, Score, Timing, measure, scorer, single_body, some_rows
from .results import BUSY_CLIENT, BUSY_MACHINE, machine
from .servers import (
    CONSTANT,
    READ_ONLY,
    BenchRun,
    Clients,
    ServerProcess,
    WrongAnswerError,
    as_request,
    bare_server,
    body_of,
    elapsed,
    service,
)

LANES = {"in_process": "in process", "http_json": "HTTP, batches", "singles": "HTTP, singles"}
BATCH_CLIENTS = (1, 4)
BATCHES = 2
"""Batches that each client sends in a run."""

INTERVAL, LONG_INTERVAL = 0.005, 0.015
"""Switch intervals of the interpreter in seconds: its default, and the one to compare with."""

BUSY_TURNS = 10_000
"""Turns of a busy thread's loop, a millisecond, after which it runs for certain."""

Run = Callable[[], BenchRun]


class Cell(NamedTuple):
    """A row of the table; over HTTP, `threads` are those of all workers."""

    lane: str
    threads: int
    workers: int | None = None
    connections: int | None = None


ONE_THREAD = Cell("in_process", 1)


class Figures(NamedTuple):
    """What was measured of a cell; rates are responses per second, medians over the runs."""

    rate: float
    low: float
    high: float
    efficiency: float
    """The rate over that of one thread in process, or for singles of the fewest workers, per core that it can use."""
    cpu_seconds: float | None
    """CPU seconds of the process and those below it for a million responses."""
    floor: float | None = None
    """The rate of as many processes of the same server that only read the same requests and send a constant."""
    of_floor: float | None = None
    beside_busy: float | None = None
    """The time beside a thread that runs Python only, over the time alone."""
    gil_waits: float | None = None
    serial_seconds: float | None = None
    """The CPU seconds of as many empty responses on one thread: what more threads do not shorten."""
    client_share: float | None = None


def measure_scaling(
    request: Request, threads: Collection[int], workers: Collection[int], lanes: Collection[str], sizes: dict[str, int]
) -> dict[Cell, Figures]:
    """Measure every cell in turns; raise BenchmarkError.

    Rewards must be those of the first cell, bit for bit.
    """
    with ExitStack() as stack:
        runs: dict[tuple[Cell, str], tuple[int, Run]] = {}
        batch = request["responses"], request["references"], request["reference_index"]
        rewards = np.asarray(scorer(1)(*batch))
        in_process = "in_process" in lanes and bool(threads)
        for number in sorted({1, *threads}) if in_process else [1]:
            score = scorer(number)
            cell = Cell("in_process", number)
            runs[cell, ""] = len(rewards), partial(score_once, score, batch, rewards)
            if in_process:
                for name, interval in (("busy", INTERVAL), ("busier", LONG_INTERVAL)):
                    runs[cell, name] = len(rewards), partial(score_beside, score, batch, rewards, interval)
            if in_process and number == 1:
                empty = [""] * len(rewards), batch[1][:1], [0] * len(rewards)
                runs[cell, "empty"] = len(rewards), partial(score_once, score, empty, np.asarray(score(*empty)))
        if workers:
            clients = stack.enter_context(Clients(max(*workers, *BATCH_CLIENTS)))
            exchanges = Exchanges(request, rewards, clients, sizes)
            for number in workers:
                server = stack.enter_context(service("--workers", str(number)))
                floors = [stack.enter_context(bare_server()) for _ in range(number)]
                runs |= exchanges.runs(number, lanes, [server], floors)
        keys = {f"{cell} {name}".strip(): (cell, name) for cell, name in runs}
        benchmarks = [
            Benchmark(key, key, responses, partial(started, run))
            for key, (responses, run) in zip(keys, runs.values(), strict=True)
        ]
        timings = measure(benchmarks, sizes["repeats"], sizes["seed"])
    return figures_of({keys[timing.name]: timing for timing in timings})


def started(run: Run) -> AbstractContextManager[Run]:
    return nullcontext(run)


def figures_of(timings: dict[tuple[Cell, str], Timing]) -> dict[Cell, Figures]:
    cores = usable_cores()
    core_seconds = {
        cell: [seconds * min(cell.threads, cores) for seconds in timing.seconds]
        for (cell, name), timing in timings.items()
        if not name
    }
    firsts = {cell.lane: seconds for cell, seconds in reversed(core_seconds.items())}
    figures = {}
    for (cell, name), timing in timings.items():
        if name:
            continue
        extra: dict[str, float] = {}
        if (cell, "floor") in timings:
            floor = timings[cell, "floor"]
            extra = {"floor": floor.rate, "of_floor": 1 / median(ratios(timing.seconds, floor.seconds))}
        if (cell, "busy") in timings:
            busy, busier = timings[cell, "busy"].seconds, timings[cell, "busier"].seconds
            longer = [timing.responses * (above - below) for above, below in zip(busier, busy, strict=True)]
            extra = {
                "beside_busy": median(ratios(busy, timing.seconds)),
                "gil_waits": max(0.0, median(longer) / (LONG_INTERVAL - INTERVAL)),
            }
        if (cell, "empty") in timings:
            extra["serial_seconds"] = median(run.cpu_seconds or run.seconds for run in timings[cell, "empty"].runs)
        cpu = timing.cpu_seconds
        figures[cell] = Figures(
            timing.rate,
            1 / max(timing.seconds),
            1 / min(timing.seconds),
            median(ratios(firsts["singles" if cell.lane == "singles" else "in_process"], core_seconds[cell])),
            None if cpu is None else cpu * 1e6,
            client_share=timing.client_share,
            **extra,
        )
    return figures


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(above, below, strict=True)]


def score_once(score: Score, batch: Columns, rewards: np.ndarray) -> BenchRun:
    cpu_before, started = time.process_time(), time.perf_counter()
    scores = score(*batch)
    run = BenchRun(time.perf_counter() - started, time.process_time() - cpu_before)
    same_bits(scores, rewards)
    return run


def same_bits(scores: Any, rewards: np.ndarray) -> None:
    if np.asarray(scores, np.float64).tobytes() != rewards.tobytes():
        raise WrongAnswerError("the rewards are not those of one thread, bit for bit")


def score_beside(score: Score, batch: Columns, rewards: np.ndarray, interval: float) -> BenchRun:
    """Score beside a thread that runs Python all the time, whose CPU time is not known apart."""
    with busy_thread(interval):
        return score_once(score, batch, rewards)._replace(cpu_seconds=None)


@contextmanager
def busy_thread(interval: float) -> Iterator[None]:
    """Run a thread that gives up the GIL only when another one has waited for the switch interval."""
    ended, before = threading.Event(), sys.getswitchinterval()
    started = threading.Event()

    def work() -> None:
        n = 0
        while not ended.is_set():
            n += 1
            if n == BUSY_TURNS:
                started.set()

    thread = threading.Thread(target=work, daemon=True)
    sys.setswitchinterval(interval)
    try:
        thread.start()
        started.wait()
        yield
    finally:
        ended.set()
        sys.setswitchinterval(before)
        thread.join()


class Exchanges:
    """The requests of every cell over HTTP, and what the answers must be."""

    def __init__(self, request: Request, rewards: np.ndarray, clients: Clients, sizes: dict[str, int]) -> None:
        self._clients = clients
        rows = some_rows(len(rewards))
        self._count, self._connections = sizes["singles"], sizes["connections"]
        self._batch = [orjson.dumps(request)], [rewards]
        self._singles = [single_body(request, row) for row in rows], [rewards[row : row + 1] for row in rows]

    def runs(
        self, workers: int, lanes: Collection[str], server: list[ServerProcess], floor: list[ServerProcess]
    ) -> dict[tuple[Cell, str], tuple[int, Run]]:
        runs: dict[tuple[Cell, str], tuple[int, Run]] = {}
        threads = workers * max(1, usable_cores() // workers)
        loads = []
        if "http_json" in lanes:
            for number in BATCH_CLIENTS:
                cell = Cell("http_json", threads, workers, number)
                loads.append((cell, *self._batch, BATCHES * number, number, number))
        if "singles" in lanes:
            cell = Cell("singles", workers, workers, self._connections)
            loads.append((cell, *self._singles, self._count, workers, self._connections))
        for cell, bodies, rewards, count, clients, connections in loads:
            responses = count * len(rewards[0])
            sizes = count, clients, connections
            runs[cell, ""] = responses, partial(self.run, server, "/v1/score", bodies, rewards, *sizes)
            runs[cell, "floor"] = responses, partial(self.run, floor, READ_ONLY, bodies, None, *sizes)
        return runs

    def run(
        self,
        servers: list[ServerProcess],
        path: str,
        bodies: list[bytes],
        rewards: list[np.ndarray] | None,
        *sizes: int,
    ) -> BenchRun:
        ports = [server.port for server in servers]
        requests = [as_request(ports[0], path, body) for body in bodies]
        before = [server.cpu_seconds() for server in servers]
        sent = self._clients.send(ports, requests, *sizes)
        after = [server.cpu_seconds() for server in servers]
        times = [elapsed(*pair) for pair in zip(before, after, strict=True)]
        for client in sent:
            for number, reply in enumerate(client.replies):
                body = body_of(reply, f"request {number}")
                if rewards is not None:
                    same_bits(orjson.loads(body)["rewards"], rewards[number % len(rewards)])
                elif body != CONSTANT:
                    raise WrongAnswerError(f"the reply to request {number} is not the constant")
        seconds = max(client.ended for client in sent) - min(client.began for client in sent)
        share = max(client.cpu_seconds for client in sent)
        return BenchRun(seconds, None if None in times else sum(filter(None, times)), share)


HEADS = (
    *("lane", "threads", "workers", "connections", "responses/s", "range", "efficiency", "of floor", "CPU s/million"),
    *("beside busy", "GIL waits"),
)
NOTES = (
    "efficiency: responses/s per thread that can have a core of its own, over those of one thread in process (singles: "
    "of the fewest workers).",
    "of floor: responses/s over those of as many processes of the same server that read the same requests and send a "
    "constant.",
    "beside busy: time beside a thread that runs only Python, over the time alone. GIL waits: how often a batch waits "
    "for the GIL then, from the time at two switch intervals.",
)


def scaling_table(figures: dict[Cell, Figures], batch: dict[str, Any], load: float | None) -> Table:
    rows: list[Row] = []
    here, notes = machine(), list(NOTES)
    for cell, measured in figures.items():
        beyond = " !" if cell.threads > here["cores"] else ""
        share = measured.client_share
        slow = " ?" if share is not None and share > BUSY_CLIENT else ""
        rows.append(
            [
                LANES[cell.lane],
                f"{cell.threads}{beyond}",
                cell.workers,
                cell.connections,
                f"{measured.rate:,.0f}{slow}",
                f"{measured.low:,.0f} to {measured.high:,.0f}",
                f"{measured.efficiency:.2f}",
                shown(measured.of_floor, ".2f"),
                shown(measured.cpu_seconds, ".1f"),
                shown(measured.beside_busy, ".1f"),
                shown(measured.gil_waits, ".0f"),
            ]
        )
    if any(cell.threads > here["cores"] for cell in figures):
        notes.append("!: more threads than usable cores.")
    if any(row[4] and str(row[4]).endswith("?") for row in rows):
        notes.append(f"?: a client process used more than {BUSY_CLIENT:.0%} of a core: the server may be faster.")
    if load is not None and load > BUSY_MACHINE * here["cores"]:
        notes.append("The machine was busy before: repeat this on an idle one.")
    serial = figures[ONE_THREAD].serial_seconds
    if serial is not None:
        notes.append(
            f"Serial part of a batch in process: {1000 * serial:.1f} ms, the CPU time of as many empty responses."
        )
    title = "{responses:,} responses, {body_bytes:,} bytes of JSON; medians of {repeats} runs, every reward checked; "
    title += "{cores} usable cores, load average {load}, Assay {assay}, Python {python}, Numba {numba}"
    loaded = "unknown" if load is None else f"{load:.1f}"
    return Table(HEADS, rows, title=title.format(**batch, **here, load=loaded), notes=notes)


COMPUTED_CORES = (4, 8, 16, 32, 64, 128)
WORKER_CORES = 4


def computed_table(figures: dict[Cell, Figures], responses: int) -> Table | None:
    """Return the rates of more cores than there are; None if too little was measured."""
    serial, cost = figures[ONE_THREAD].serial_seconds, figures[ONE_THREAD].cpu_seconds
    cells = {cell.lane: cell for cell in reversed(figures) if cell.connections != 1}
    costs = [figures[cells[lane]].cpu_seconds if lane in cells else None for lane in ("http_json", "singles")]
    if serial is None or cost is None or not all(costs):
        return None
    whole = responses * cost / 1e6
    bounds = [(figures[cells[lane]].floor or 0) / (cells[lane].workers or 1) for lane in ("http_json", "singles")]
    rows: list[Row] = []
    for cores in COMPUTED_CORES:
        if cores > usable_cores():
            row: list[str | int | None] = [cores, rounded(responses / (serial + (whole - serial) / cores))]
            for cost, bound, worker_cores in zip(costs, bounds, (WORKER_CORES, 1), strict=True):
                workers = cores // worker_cores
                row.append(rounded(min(cores * 1e6 / (cost or 1), workers * bound)))
            rows.append(row)
    heads = ("cores", "in process", "HTTP, batches", "HTTP, singles")
    notes = (
        "in process: one batch after the other, by Amdahl's law from CPU seconds and the serial part.",
        f"HTTP, with a worker for every {WORKER_CORES} cores (batches) or every core (singles): at the CPU seconds of "
        "the fewest workers, but no worker is faster than its floor.",
    )
    return Table(heads, rows, left=0, title="Computed from the measured numbers, in responses/s", notes=notes)


def rounded(rate: float) -> str:
    return f"{float(f'{rate:.2g}'):,.0f}"


def shown(value: float | None, form: str) -> str | None:
    return None if value is None else format(value, form)


def scaling_json(figures: dict[Cell, Figures], batch: dict[str, Any], load: float | None) -> dict[str, Any]:
    return {
        "batch": batch,
        "machine": machine(),
        "load_average": load,
        "cells": [{**cell._asdict(), **measured._asdict()} for cell, measured in figures.items()],
    }

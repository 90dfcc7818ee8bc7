"""Times benchmarks in turns, and ends at the first wrong result."""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import NamedTuple


class BenchmarkError(RuntimeError):
    """A benchmark could not run."""


class WrongAnswerError(BenchmarkError):
    """A benchmark returned a wrong result, which makes its time meaningless."""


class Run(NamedTuple):
    """The time of one run over the responses of a benchmark, in seconds."""

    seconds: float
    cpu_seconds: float | None = None  # CPU time of the process that does the work; None if unknown
    client_seconds: float | None = None  # CPU time of the load generator; None without one


Start = Callable[[], AbstractContextManager[Callable[[], Run]]]
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
    runs: tuple[Run, ...]

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


def elapsed(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def cpu_seconds(pid: int) -> float | None:
    """Return the CPU seconds of all threads of a process, user and system; None if unsupported.

    Uses POSIX `clock_getcpuclockid` (nanoseconds): the ticks of /proc/PID/stat (10 ms) are too coarse.
    """
    clock = ctypes.c_int()
    try:
        failed = ctypes.CDLL(None).clock_getcpuclockid(ctypes.c_int(pid), ctypes.byref(clock))
        return None if failed else time.clock_gettime(clock.value)
    except (AttributeError, OSError, TypeError):
        return None


def measure(benchmarks: Sequence[Benchmark], repeats: int, seed: int = 0) -> list[Timing]:
    """Run every benchmark once untimed, then `repeats` times in turns, in a random order each time."""
    dice = random.Random(seed)
    work: dict[str, Callable[[], Run]] = {}
    runs: dict[str, list[Run]] = {benchmark.name: [] for benchmark in benchmarks}

    def run(benchmark: Benchmark) -> Run:
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

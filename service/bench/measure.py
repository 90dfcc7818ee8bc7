"""Times benchmarks in turns and checks every result; the servers that are measured, and rollouts to send.

The rollout generator and the plain-Python scorer are parts of a checkout, which the package does not contain: the only
imports of the product from outside it (listed in `tests/packaging/test_imports.py`). The console script does not search
the current directory for modules, so it is added to the path while they are imported.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from ..config import PREFIX


class NotACheckoutError(RuntimeError):
    """The current directory is not a checkout of Assay."""


def batch_of(prompts: int, samples: int, seed: int) -> dict[str, Any]:
    """Generate a request of `prompts` references with `samples` responses each; raises NotACheckoutError."""
    with importable("examples/rollouts.py"):
        from examples.rollouts import as_request, generate
    request: dict[str, Any] = as_request(generate(prompts, samples, seed))
    return request


def plain_scorer() -> Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[float]]:
    with importable("tests/reference/scorer.py"):
        from tests.reference.scorer import plain_score
    score: Callable[[Sequence[str], Sequence[Any], Sequence[int]], list[float]] = plain_score
    return score


@contextmanager
def importable(file: str) -> Iterator[None]:
    """Search the current directory first, where `file` must be; raises NotACheckoutError if that fails."""
    folder = Path.cwd()
    if not (folder / file).is_file():
        raise NotACheckoutError(f"{file} not found: run assay bench in a checkout of Assay")
    sys.path.insert(0, str(folder))
    try:
        yield
    except ModuleNotFoundError as error:  # an installed package may have the same name
        raise NotACheckoutError(f"{file} cannot be imported: {error}") from error
    finally:
        sys.path.remove(str(folder))


T = TypeVar("T")


class BenchmarkError(RuntimeError):
    """A benchmark could not run."""


class WrongAnswerError(BenchmarkError):
    """A benchmark returned a wrong result, which makes its time meaningless."""


class Run(NamedTuple):
    """The time of one run over the responses of a benchmark, in seconds."""

    seconds: float
    cpu_seconds: float | None = None  # CPU time of the process that does the work; None if unknown
    client_seconds: float | None = None  # CPU time of a separate load generator; None without one


Start = Callable[[], AbstractContextManager[Callable[[], Run]]]
"""Sets up a benchmark, untimed; yields the function that processes the responses once and raises BenchmarkError."""


def without_setup(run: Callable[[], Run]) -> Start:
    return lambda: nullcontext(run)


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


def clocked(work: Callable[[], T], cpu: Callable[[], float | None]) -> tuple[T, Run]:
    """Return the result of `work`, its wall time and its CPU time by the clock `cpu`."""
    cpu_before = cpu()
    started = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - started
    return result, Run(seconds, elapsed(cpu_before, cpu()))


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
        except WrongAnswerError as error:
            raise WrongAnswerError(f"{benchmark.title}: {error}") from None

    with ExitStack() as stack:
        for benchmark in benchmarks:
            work[benchmark.name] = stack.enter_context(benchmark.start())
            run(benchmark)
        for _ in range(repeats):
            for benchmark in dice.sample(benchmarks, len(benchmarks)):
                runs[benchmark.name].append(run(benchmark))
    return [Timing(name, title, responses, tuple(runs[name])) for name, title, responses, _ in benchmarks]


READY_WITHIN = 600.0  # seconds; enough for a machine without cached kernels
SETTLING = 0.02  # time after a reply until the server is idle: it updates metrics and frees memory
SERVE = ("-c", "from assay.service.cli import start; start()", "serve", "--drain-seconds", "0")


class ServerProcess:
    """Runs `python ARGUMENTS --port PORT` on a free loopback port, without the caller's settings."""

    def __init__(self, arguments: Sequence[str], log: Path | None = None) -> None:
        self._arguments = arguments
        self._log = log

    def __enter__(self) -> Self:
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        variables = os.environ.items()
        environment = {name: v for name, v in variables if name == "ASSAY_CACHE_DIR" or not name.startswith(PREFIX)}
        command = [sys.executable, *self._arguments, "--port", str(self.port)]
        with nullcontext() if self._log is None else self._log.open("wb") as sink:
            self._process = subprocess.Popen(command, env=environment, stdout=sink, stderr=sink)
        self.pid = self._process.pid
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_WITHIN)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait()

    def alive(self) -> bool:
        return self._process.poll() is None

    def cpu_seconds(self) -> float | None:
        """Return the CPU seconds of the server, once it is idle."""
        time.sleep(SETTLING)
        return cpu_seconds(self.pid)

    def timed_post(self, path: str, body: bytes, media_type: str) -> tuple[bytes, Run]:
        """Return the body of the reply, its time and the server's CPU time; raises BenchmarkError unless it is 200."""
        return clocked(lambda: self._post(path, body, media_type), self.cpu_seconds)

    def _post(self, path: str, body: bytes, media_type: str) -> bytes:
        try:
            self._connection.request("POST", path, body, {"Content-Type": media_type})
            reply = self._connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchmarkError(f"{path} was not answered: {error}") from error
        if reply.status != 200:
            raise BenchmarkError(f"{path} answered {reply.status}: {content[:500].decode(errors='replace')}")
        return content

    def _wait(self) -> None:
        started = time.monotonic()
        while time.monotonic() - started < READY_WITHIN:
            if not self.alive():
                raise BenchmarkError(f"the server ended with exit code {self._process.returncode}")
            try:
                self._connection.request("GET", "/readyz")
                reply = self._connection.getresponse()
                reply.read()
                if reply.status == 200:
                    return
            except OSError:
                self._connection.close()
            time.sleep(0.05)
        raise BenchmarkError(f"the server was not ready within {READY_WITHIN:.0f} s")


def service(*flags: str) -> ServerProcess:
    return ServerProcess([*SERVE, "--log-level", "warning", *flags])


def bare_server() -> ServerProcess:
    return ServerProcess(["-m", f"{__package__}.bare_server"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

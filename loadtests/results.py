"""Results of benchmarks as text and JSON. Ratios come first, as they are comparable across machines."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from statistics import median
from typing import Any, NamedTuple

from ..service.settings import usable_cores
from ..service.tables.table import Row, Table
from ..service.version import VERSION
from . import TITLES
from .bench import Timing

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
    Ratio(
        "quantities_over_words",
        "quantities and their errors, time over words",
        "in_process_quantities",
        "in_process",
        ("≤", 1.6),
    ),
    Ratio("http_over_floor", "HTTP JSON, time over the floor's", "http_json", "floor", ("≤", 1.5)),
    Ratio("arrow_over_floor", "HTTP Arrow, time over the floor's", "http_arrow", "floor", ("≤", 0.8)),
    Ratio("json_steps", "HTTP JSON with steps, time over without", "http_json_steps", "http_json", ("≤", 1.5)),
    Ratio("arrow_steps", "HTTP Arrow with steps, time over without", "http_arrow_steps", "http_arrow", ("≤", 1.15)),
    Ratio(
        "singles_over_bare", "singles, requests per second over a bare route's", "singles_bare", "singles", ("≥", 0.7)
    ),
    Ratio("http_speedup", "HTTP JSON, times as fast as plain Python in process", "plain_python", "http_json"),
)


class BenchFinding(NamedTuple):
    ratio: Ratio
    median: float  # over the repeats, whose two runs are close in time
    low: float
    high: float
    cpu: float | None  # ratio of CPU times over all repeats, which other processes do not affect


def findings(timings: Sequence[Timing]) -> list[BenchFinding]:
    by_name = {timing.name: timing for timing in timings}
    measured = []
    for ratio in RATIOS:
        if ratio.of in by_name and ratio.over in by_name:
            of, over = by_name[ratio.of], by_name[ratio.over]
            each = [above / below for above, below in zip(of.seconds, over.seconds, strict=True)]
            cpu = of.cpu_seconds / over.cpu_seconds if ratio.cpu and of.cpu_seconds and over.cpu_seconds else None
            measured.append(BenchFinding(ratio, median(each), min(each), max(each), cpu))
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
    ratios = {
        ratio.name: {
            "median": middle,
            "low": low,
            "high": high,
            "cpu": cpu,
            "goal": ratio.goal,
            "met": ratio.met(middle),
        }
        for ratio, middle, low, high, cpu in findings(results.timings)
    }
    return {
        "ratios": ratios,
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


def ratio_table(measured: Sequence[BenchFinding]) -> Table:
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

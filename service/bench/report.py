"""Results of `assay bench` as text and JSON; ratios first, as they are comparable across machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from ..terminal import table
from .machine import load_average, machine
from .measure import Timing
from .ratios import Finding, findings

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Results", "as_json", "as_parts"]

BUSY_CLIENT = 0.9
"""Share of a core above which the load generator may be the bottleneck."""

BUSY_MACHINE = 0.5
"""Runnable processes per core before the start, above which times are unreliable."""


class Results(NamedTuple):
    """Results of `assay bench`."""

    timings: Sequence[Timing]
    batch: Mapping[str, Any]
    skipped: Mapping[str, str]
    """Benchmarks that could not run, with the reason."""
    load: float | None = None
    """Load average of the machine before the start."""

    @classmethod
    def start(cls) -> Results:
        """Return empty results with the current load average."""
        return cls((), {}, {}, load_average())


def as_json(results: Results) -> dict[str, Any]:
    """Return the results as a JSON object; `seconds` of a benchmark has an entry for each run."""
    return {
        "ratios": {found.ratio.name: ratio_json(found) for found in findings(results.timings)},
        "batch": dict(results.batch),
        "machine": machine(),
        "load_average": results.load,
        "skipped": dict(results.skipped),
        "lanes": {timing.name: benchmark_json(timing) for timing in results.timings},
    }


def ratio_json(found: Finding) -> dict[str, Any]:
    goal = found.ratio.goal
    return {
        "median": found.median,
        "low": found.low,
        "high": found.high,
        "cpu": found.cpu,
        "goal": str(goal) if goal else None,
        "met": goal.met(found.median) if goal else None,
    }


def benchmark_json(timing: Timing) -> dict[str, Any]:
    return {
        "responses": timing.responses,
        "responses_per_second": timing.rate,
        "spread": timing.spread,
        "seconds": [run.seconds for run in timing.runs],
        "cpu_seconds": [run.cpu_seconds for run in timing.runs],
        "client_share": timing.client_share,
    }


def as_parts(results: Results) -> list[str | Table]:
    """Return the results as lines and tables for a terminal."""
    found = findings(results.timings)
    return [
        "{responses:,} responses of {mean_response_bytes:,} bytes, {references:,} references, "
        "{body_bytes:,} bytes of JSON; {repeats} repeats; every result checked".format(**results.batch),
        *(["", ratio_table(found)] if found else []),
        "",
        benchmark_table(results.timings),
        "",
        *notes(results),
    ]


def ratio_table(found: Sequence[Finding]) -> Table:
    rows = []
    for one in found:
        goal = one.ratio.goal
        missed = "" if goal is None or goal.met(one.median) else "missed"
        cpu = "" if one.cpu is None else f"{one.cpu:.2f}"
        span = f"{one.low:.2f} to {one.high:.2f}"
        rows.append([one.ratio.title, f"{one.median:.2f}", span, cpu, "" if goal is None else str(goal), missed])
    return table(["ratio", "median", "range", "CPU", "goal", ""], rows)


def benchmark_table(timings: Sequence[Timing]) -> Table:
    rows = []
    for timing in timings:
        cpu, client, milliseconds = timing.cpu_seconds, timing.client_share, 1000 * timing.responses
        rows.append(
            [
                timing.title,
                f"{timing.responses:,}",
                f"{timing.rate:,.0f}",
                f"{milliseconds * median(timing.seconds):,.1f} ms",
                "" if cpu is None else f"{milliseconds * cpu:,.1f} ms",
                f"{100 * timing.spread:.0f} %",
                "" if client is None else f"{100 * client:.0f} %{' !' if is_busy(timing) else ''}",
            ]
        )
    return table(["benchmark", "responses", "per s", "median", "CPU", "spread", "client"], rows)


def notes(results: Results) -> list[str]:
    """Return notes on the figures."""
    known = machine()
    lines = [f"{name} was skipped: {reason}" for name, reason in results.skipped.items()]
    if any(map(is_busy, results.timings)):
        lines.append("! the load generator used more than 90 % of a core: the server may be faster than this")
    if results.load is not None and results.load > BUSY_MACHINE * known["cores"]:
        lines.append(f"the machine was busy before (load average {results.load:.1f}): trust the CPU ratios more")
    lines.append("CPU is the CPU time of the process that does the work; all other times are wall time.")
    lines.append("{cores} cores, Assay {assay}, Python {python}, Numba {numba}".format(**known))
    return lines


def is_busy(timing: Timing) -> bool:
    """Return whether the load generator may have been the bottleneck."""
    return timing.client_share is not None and timing.client_share > BUSY_CLIENT

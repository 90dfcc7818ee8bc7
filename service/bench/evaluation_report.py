"""Results of `assay bench --evaluate` as text and JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from ..errors import NotInstalled
from .evaluations import COMPARISONS, Comparison, EvaluationBenchmark, benchmarks_of, records_of
from .machine import machine
from .measure import Timing, measure

__all__ = ["Compared", "as_json", "as_text", "measured"]

MICRO = 1e6


class Compared(NamedTuple):
    """The times of one evaluation and its plain-Python reference."""

    comparison: Comparison
    ours: Timing
    plain: Timing

    @property
    def ratios(self) -> list[float]:
        """Time per record of plain Python over ours, for each repeat."""
        return [above / below for above, below in zip(self.plain.seconds, self.ours.seconds, strict=True)]

    @property
    def cpu_ratio(self) -> float | None:
        """The same ratio of CPU time, which other processes do not affect."""
        plain, ours = self.plain.cpu_seconds, self.ours.cpu_seconds
        return plain / ours if plain and ours else None

    @property
    def script_ratio(self) -> float | None:
        """Recorded CPU time of the public script over ours."""
        script, ours = self.comparison.script, self.ours.cpu_seconds
        return script / (MICRO * ours) if script is not None and ours else None


def measured(count: int, repeats: int, seed: int) -> tuple[list[Compared], dict[str, str]]:
    """Run every comparison; return also the skipped ones with the reason.

    Raises BenchmarkError and NotACheckoutError.
    """
    records = records_of(count, seed)
    benchmarks: list[EvaluationBenchmark] = []
    skipped: dict[str, str] = {}
    for comparison in COMPARISONS:
        try:
            benchmarks += benchmarks_of(comparison, records[comparison.task])
        except ModuleNotFoundError as error:
            skipped[comparison.title] = f"{error.name} is not installed (assay[dev])"
    try:
        timings = {timing.name: timing for timing in measure(benchmarks, repeats, seed)}
    except NotInstalled as error:
        raise ModuleNotFoundError(str(error)) from None
    compared = [
        Compared(comparison, timings[comparison.name], timings[f"{comparison.name}_plain"])
        for comparison in COMPARISONS
        if comparison.name in timings
    ]
    return compared, skipped


def as_json(compared: Sequence[Compared], skipped: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the results as a JSON object."""
    return {
        "evaluations": {
            one.comparison.name: {
                "median": median(one.ratios),
                "low": min(one.ratios),
                "high": max(one.ratios),
                "cpu": one.cpu_ratio,
                "records": one.ours.responses,
                "plain_records": one.plain.responses,
                "microseconds": MICRO * median(one.ours.seconds),
                "plain_microseconds": MICRO * median(one.plain.seconds),
                "script_microseconds": one.comparison.script,
                "script_ratio": one.script_ratio,
            }
            for one in compared
        },
        "sizes": dict(sizes),
        "skipped": dict(skipped),
        "machine": machine(),
    }


def as_text(compared: Sequence[Compared], skipped: Mapping[str, str]) -> str:
    """Format the results as a table."""
    lines = [
        f"{'evaluation':<26}{'records':>9}{'µs each':>10}{'plain µs':>11}{'times':>8}{'range':>16}{'CPU':>8}"
        f"{'script µs':>11}{'times':>9}"
    ]
    for one in compared:
        span = f"{min(one.ratios):.1f} to {max(one.ratios):.1f}"
        script = one.comparison.script
        lines.append(
            f"{one.comparison.title:<26}{one.ours.responses:>9,}{MICRO * median(one.ours.seconds):>10.1f}"
            f"{MICRO * median(one.plain.seconds):>11.1f}{median(one.ratios):>8.1f}{span:>16}"
            + ("" if one.cpu_ratio is None else f"{one.cpu_ratio:>8.1f}")
            + (f"{script:>11,.1f}{one.script_ratio:>9,.1f}" if script is not None else "")
        )
    lines += [
        "",
        *(f"{title} was skipped: {reason}" for title, reason in skipped.items()),
        "times: time per record of plain Python over ours; CPU: the same ratio of CPU time.",
        "plain: reference implementations, for ROUGE the library that the script calls; same records, results checked.",
        "script: CPU time per record of the public script's metrics, measured on another machine (Xeon, 2.5 GHz) with",
        "the longer records of the benchmark: for orientation only.",
    ]
    return "\n".join(lines)

"""Ratios between the times of benchmarks, and their goals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from .measure import Timing

__all__ = ["RATIOS", "Finding", "Goal", "Ratio", "findings"]


class Goal(NamedTuple):
    """A bound on a ratio."""

    bound: float
    at_least: bool

    def met(self, ratio: float) -> bool:
        return ratio >= self.bound if self.at_least else ratio <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


class Ratio(NamedTuple):
    """Time per response of one benchmark over that of another."""

    name: str
    title: str
    of: str
    over: str
    goal: Goal | None = None
    cpu: bool = True
    """Whether the ratio of CPU times is meaningful: more threads save time, not work."""


RATIOS = (
    Ratio(
        "in_process_speedup",
        "in process, times as fast as plain Python",
        "plain_python",
        "in_process",
        Goal(20, at_least=True),
    ),
    Ratio(
        "all_cores_speedup",
        "all cores, times as fast as one thread",
        "in_process",
        "in_process_all_cores",
        Goal(1.7, at_least=True),
        cpu=False,
    ),
    Ratio("http_over_floor", "HTTP JSON, time over the floor's", "http_json", "floor", Goal(1.5, at_least=False)),
    Ratio("arrow_over_floor", "HTTP Arrow, time over the floor's", "http_arrow", "floor", Goal(0.8, at_least=False)),
    Ratio(
        "singles_over_bare",
        "singles, requests per second over a bare route's",
        "singles_bare",
        "singles",
        Goal(0.7, at_least=True),
    ),
    Ratio("http_speedup", "HTTP JSON, times as fast as plain Python in process", "plain_python", "http_json"),
)


class Finding(NamedTuple):
    """One measured ratio."""

    ratio: Ratio
    median: float
    """Over the repeats, whose two runs are close in time."""
    low: float
    high: float
    cpu: float | None
    """Ratio of CPU times over all repeats, which other processes do not affect."""


def findings(timings: Sequence[Timing]) -> list[Finding]:
    """Return every ratio whose two benchmarks were measured."""
    by_name = {timing.name: timing for timing in timings}
    return [
        finding(ratio, by_name[ratio.of], by_name[ratio.over])
        for ratio in RATIOS
        if ratio.of in by_name and ratio.over in by_name
    ]


def finding(ratio: Ratio, of: Timing, over: Timing) -> Finding:
    each = [above / below for above, below in zip(of.seconds, over.seconds, strict=True)]
    cpu = of.cpu_seconds / over.cpu_seconds if ratio.cpu and of.cpu_seconds and over.cpu_seconds else None
    return Finding(ratio, statistics.median(each), min(each), max(each), cpu)

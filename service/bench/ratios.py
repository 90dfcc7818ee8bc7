"""Ratios between the times of benchmarks, and their goals."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from .measure import Timing

__all__ = ["RATIOS", "Finding", "Ratio", "findings"]


class Ratio(NamedTuple):
    """Time per response of one benchmark over that of another, and the goal: a lower or an upper bound."""

    name: str
    title: str
    of: str
    over: str
    at_least: float | None = None
    at_most: float | None = None
    cpu: bool = True
    """Whether the ratio of CPU times is meaningful: more threads save time, not work."""

    @property
    def goal(self) -> str | None:
        """The goal as text."""
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return None if self.at_most is None else f"≤ {self.at_most:g}"

    def met(self, ratio: float) -> bool | None:
        """Return whether a measured ratio meets the goal; None without one."""
        if self.at_least is not None:
            return ratio >= self.at_least
        return None if self.at_most is None else ratio <= self.at_most


RATIOS = (
    Ratio("in_process_speedup", "in process, times as fast as plain Python", "plain_python", "in_process", at_least=20),
    Ratio(
        "all_cores_speedup",
        "all cores, times as fast as one thread",
        "in_process",
        "in_process_all_cores",
        at_least=1.7,
        cpu=False,
    ),
    Ratio("http_over_floor", "HTTP JSON, time over the floor's", "http_json", "floor", at_most=1.5),
    Ratio("arrow_over_floor", "HTTP Arrow, time over the floor's", "http_arrow", "floor", at_most=0.8),
    Ratio(
        "singles_over_bare", "singles, requests per second over a bare route's", "singles_bare", "singles", at_least=0.7
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

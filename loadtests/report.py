"""The table: one line for each load, from Locust's record and the service's resource usage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from swarm import Load
from target import Usage

__all__ = ["Row", "latency", "table"]

MAX_CPU = 0.9
"""Locust's own threshold: above it, the load generator measures itself."""
MAX_LATE = 5.0
"""Milliseconds that Locust may send late: the allowance below."""
RATIO, ALLOWANCE = 5, 5.0
"""Single requests during batches may take RATIO times as long as alone plus ALLOWANCE milliseconds, at p99."""

MISSED = "NOT met. Batches delay single requests on this machine: repeat when it is idle, or add cores or replicas"

HEADS = (
    "load",
    "requests/s",
    "responses/s",
    "median ms",
    "p95 ms",
    "p99 ms",
    "failed",
    "wrong",
    "CPU s/1,000",
    "resident MiB",
    "peak MiB",
    "Locust CPU",
)


class Row(NamedTuple):
    """One load. `cpu_seconds` and `responses_meanwhile` are totals of all concurrent loads."""

    load: Load
    record: dict[str, Any]
    cpu_seconds: float | None
    responses_meanwhile: int
    usage: Usage | None

    @property
    def failed(self) -> int:
        """The number of requests without an answer, including those without any outcome."""
        return int(self.record["failed"] + self.record["sent"] - self.record["answered"])

    @property
    def wrong(self) -> int:
        return int(self.record["wrong"])

    @property
    def invalid(self) -> str | None:
        """The reason why the figures are invalid, or None."""
        if self.record["cpu_warning"]:
            return "Locust warned that its own CPU usage was too high"
        if self.record["cpu_share"] > MAX_CPU:
            return f"Locust used {self.record['cpu_share']:.0%} of a core"
        if not self.record["held"]["milliseconds"]:
            return "no request fell into the hold"
        if self.late > max(MAX_LATE, self.percentile(0.99) / 2):
            return f"most of p99 is Locust's own: it sent {self.late:.0f} ms late (p99), the machine was too busy"
        return None

    @property
    def late(self) -> float:
        """Milliseconds from when a request was due until Locust sent it, at p99; 0 if none was due."""
        return percentile(self.record["held"]["late_milliseconds"], 0.99)

    def percentile(self, share: float) -> float:
        """Return the percentile of the response times in the hold, in milliseconds."""
        return percentile(self.record["held"]["milliseconds"], share)

    def cells(self) -> list[str]:
        held = self.record["held"]
        seconds = held["seconds"] or float("nan")
        cpu = None if self.cpu_seconds is None or not self.responses_meanwhile else self.cpu_seconds
        return [
            self.load.name,
            f"{len(held['milliseconds']) / seconds:,.1f}",
            f"{held['responses'] / seconds:,.0f}",
            *(f"{self.percentile(share):,.1f}" for share in (0.5, 0.95, 0.99)),
            str(self.failed),
            str(self.wrong),
            "–" if cpu is None else f"{1000 * cpu / self.responses_meanwhile:.3f}",
            *(("–", "–") if self.usage is None else (f"{size / 2**20:,.0f}" for size in self.usage[1:])),
            f"{self.record['cpu_share']:.0%}" + (" **invalid**" if self.invalid else ""),
        ]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` of all values do not exceed; NaN if there are none."""
    return float(np.quantile(values, share, method="inverted_cdf")) if values else float("nan")


def table(rows: Sequence[Row]) -> str:
    """Return the rows in Markdown, then all faults and the reasons for invalid rows."""
    lines = [HEADS, ["---", *["---:"] * (len(HEADS) - 1)], *(row.cells() for row in rows)]
    text = ["| " + " | ".join(cells) + " |" for cells in lines]
    for row in rows:
        faults = [f"- {row.load.name}: {count} × {fault}" for fault, count in row.record["faults"]]
        lost = row.record["sent"] - row.record["answered"]
        faults += [f"- {row.load.name}: {lost} requests without any outcome"] if lost else []
        faults += [f"- {row.load.name}: INVALID RUN: {row.invalid}"] if row.invalid else []
        text += ["", *faults] if faults else []
    return "\n".join(text)


def latency(rows: Sequence[Row]) -> str:
    """Describe how much longer single requests wait during batches; empty if that was not measured."""
    named = {row.load.name: row for row in rows}
    if not {"steady-alone", "steady-beside", "batches-beside"} <= named.keys():
        return ""
    alone, beside, batches = named["steady-alone"], named["steady-beside"], named["batches-beside"]
    before, after = alone.percentile(0.99), beside.percentile(0.99)
    most = RATIO * before + ALLOWANCE
    lines = [
        f"Single requests at {alone.load.rate:g} per second, p99 from when each was due: {before:.1f} ms alone, "
        f"{after:.1f} ms during batches; ratio {after / before:.2f}.",
        f"Allowed: {RATIO} × {before:.1f} + {ALLOWANCE:g} = {most:.1f} ms: {'met' if after <= most else MISSED}.",
        f"Part of that: Locust sent {alone.late:.1f} ms and {beside.late:.1f} ms late (p99).",
    ]
    if not covers(batches, beside):
        lines.append("INVALID: batches did not run during the whole hold of the single requests.")
    return "\n\n" + "\n".join(f"- {line}" for line in lines)


def covers(batches: Row, beside: Row) -> bool:
    """Return whether batches ran during the whole hold of the single requests."""
    held = beside.record["held"]
    return bool(batches.record["first"] <= held["began"] and held["began"] + held["seconds"] <= batches.record["last"])

"""Merges the metrics of several processes, including those that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from ..runs import RunNames

__all__ = ["Families", "MergedRegistry", "cumulative", "merge", "relabelled", "snapshot"]

Families = list[list[Any]]
"""Families as JSON: `[name, documentation, type, [[sample, labels, value], …]]`."""

MAX_GAUGES = frozenset({"assay_ready", "assay_draining", "assay_compiled_signatures"})
MIN_GAUGES = frozenset({"assay_process_start_time_seconds", "assay_process_max_fds"})
"""Gauges whose sum is meaningless. The service is ready as soon as one process is: the others do not listen before they
are ready."""

SUMMED = frozenset({"counter", "histogram", "summary", "gaugehistogram"})


def snapshot(registry: Any) -> Families:
    """Return the current content of a registry."""
    return [
        [m.name, m.documentation, m.type, [[s.name, s.labels, s.value] for s in m.samples]] for m in registry.collect()
    ]


def cumulative(families: Families) -> Families:
    """Return the families that stay valid after their process has ended: counters and histograms, not gauges."""
    return [family for family in families if family[2] in SUMMED]


def relabelled(families: Families, runs: RunNames) -> Families:
    """Label the samples of runs that `runs` does not admit as those of other runs, in place; return the families."""
    for *_, samples in families:
        for _, labels, _ in samples:
            if "run" in labels:
                labels["run"] = runs.label(labels["run"])
    return families


def merge(parts: Iterable[Families]) -> Families:
    """Merge several snapshots into one, with families and samples in order of first appearance."""
    found: dict[str, tuple[list[Any], dict[tuple[Any, ...], list[Any]]]] = {}
    for families in parts:
        for name, documentation, kind, samples in families:
            _, merged = found.setdefault(name, ([name, documentation, kind], {}))
            for sample, labels, value in samples:
                key = (sample, *sorted(labels.items()))
                if key in merged:
                    merged[key][2] = merge_values(name, kind, merged[key][2], value)
                else:
                    merged[key] = [sample, labels, value]
    return [[*head, list(merged.values())] for head, merged in found.values()]


def merge_values(name: str, kind: str, one: float, other: float) -> float:
    if kind == "info" or name in MAX_GAUGES:
        return max(one, other)
    return min(one, other) if name in MIN_GAUGES else one + other


class MergedRegistry:
    """A snapshot as a registry for the encoders of prometheus_client."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield the families as metrics of prometheus_client."""
        for name, documentation, kind, samples in self._families:
            metric = Metric(name, documentation, kind)
            metric.samples = [Sample(sample, labels, value) for sample, labels, value in samples]
            yield metric

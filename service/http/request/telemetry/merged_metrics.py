"""Metrics of several processes as one: what each has counted is added up, also that of processes that have ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

__all__ = ["Families", "Merged", "counted", "merge", "snapshot"]

Families = list[list[Any]]
"""Families as JSON: `[name, documentation, type, [[sample, labels, value], …]]`."""

HIGHEST = frozenset({"assay_ready", "assay_draining", "assay_compiled_signatures"})
LOWEST = frozenset({"assay_process_start_time_seconds", "assay_process_max_fds"})
"""Gauges of which the sum would mean nothing. The service is ready as soon as one of its processes is: the others do
not listen before they are."""

ADDED_UP = frozenset({"counter", "histogram", "summary", "gaugehistogram"})


def snapshot(registry: Any) -> Families:
    """Everything in a registry, at this moment."""
    return [
        [m.name, m.documentation, m.type, [[s.name, s.labels, s.value] for s in m.samples]] for m in registry.collect()
    ]


def counted(families: Families) -> Families:
    """What stays true once its process has ended: how often something happened, not how much of it there is."""
    return [family for family in families if family[2] in ADDED_UP]


def merge(parts: Iterable[Families]) -> Families:
    """One snapshot of several: families and samples in the order in which they first appear."""
    found: dict[str, tuple[list[Any], dict[tuple[Any, ...], list[Any]]]] = {}
    for families in parts:
        for name, documentation, kind, samples in families:
            _, merged = found.setdefault(name, ([name, documentation, kind], {}))
            for sample, labels, value in samples:
                key = (sample, *sorted(labels.items()))
                if key in merged:
                    merged[key][2] = joined(name, kind, merged[key][2], value)
                else:
                    merged[key] = [sample, labels, value]
    return [[*head, list(merged.values())] for head, merged in found.values()]


def joined(name: str, kind: str, one: float, other: float) -> float:
    if kind == "info" or name in HIGHEST:
        return max(one, other)
    return min(one, other) if name in LOWEST else one + other


class Merged:
    """A snapshot in the place of a registry, for the encoders of prometheus_client."""

    def __init__(self, families: Families) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Its families as prometheus_client knows them."""
        for name, documentation, kind, samples in self._families:
            metric = Metric(name, documentation, kind)
            metric.samples = [Sample(sample, labels, value) for sample, labels, value in samples]
            yield metric

"""Blocks of the comparison: all records or a group, with the best models and their ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...evaluate.task import Metric
from ..evaluated_file import Part, formatted
from .correlation import average_ranks

__all__ = ["Block", "block_of"]


class Block(NamedTuple):
    """All records, or those of a group, of every model, the value of each metric, and the models' mean ranks.

    best: for each metric, the numbers of the models with the best value, as the table shows it.
    """

    name: str
    field: str | None
    value: str | None
    parts: list[Part]
    best: dict[str, list[int]]
    ranks: list[float | None]


def block_of(
    name: str,
    field: str | None,
    value: str | None,
    parts: list[Part],
    metrics: Sequence[tuple[str, Metric | None, str]],
) -> Block:
    """Return the block with the parts of all models. Values are compared as the table shows them."""
    best: dict[str, list[int]] = {}
    ranks = []
    for key, metric, _ in metrics:
        values = {k: part.aggregate[key] for k, part in enumerate(parts) if part.aggregate.get(key) is not None}
        if metric is None or len(values) < 2:
            continue
        sign = -1.0 if metric.less_is_better else 1.0
        shown = np.array([sign * float(formatted(metric, one)) for one in values.values()])
        best[key] = [k for k, one in zip(values, shown.tolist(), strict=True) if one == shown.max()]
        if len(values) == len(parts):
            ranks.append(average_ranks(-shown))
    means = np.mean(ranks, axis=0).tolist() if ranks else [None] * len(parts)
    return Block(name, field, value, parts, best, means)

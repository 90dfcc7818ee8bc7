"""The rewards of every rollout under every configuration as a file: JSONL, JSON, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from ..files.complete_output import json_output
from ..records.files import is_columnar
from .grids import Grid
from .rewards import METRICS, Piece

__all__ = ["reward_output"]


@contextmanager
def reward_output(target: str, fmt: str, grid: Grid, kind: str) -> Iterator[Callable[[Piece], None]]:
    """Yield a function that writes the rows of a piece; raises OSError if the output cannot be written.

    kind: how the rows of the input are located: `line`, `record` or `row`.
    """
    if is_columnar(fmt):
        import pyarrow as pa  # needs the extra

        from ..files.columns.results import column_output, error_field

        schema = schema_of(grid, kind, error_field(numbered=False))
        with column_output(target, fmt, schema) as write_table:
            yield lambda piece: write_table(pa.Table.from_pylist(list(rows_of(piece, grid)), schema))
        return
    with json_output(target, fmt) as write:
        yield lambda piece: write([orjson.dumps(row) for row in rows_of(piece, grid)])


def schema_of(grid: Grid, kind: str, error: Any) -> Any:
    """Return the schema of columns; signatures of the configurations are the metadata of their fields."""
    import pyarrow as pa

    rewards = [
        pa.field(one.name, pa.float64(), metadata={"signature": one.identity["signature"]})
        for one in grid.configurations
    ]
    metrics = [pa.field(name, pa.float64()) for name in METRICS]
    numbers = [pa.field(name, pa.int64()) for name in (kind, "group")]
    structs = [pa.field("rewards", pa.struct(rewards)), pa.field("metrics", pa.struct(metrics))]
    return pa.schema([*numbers, *structs, error])


def rows_of(piece: Piece, grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield a row for each rollout: its location, and its rewards and metrics or its error."""
    names = [one.name for one in grid.configurations]
    nothing = [None] * len(piece.groups)
    columns = (nothing if scores is None else scores.rewards.tolist() for scores in piece.scores)
    rewards = zip(*columns, strict=True)
    metrics = zip(*(piece.metrics[name].tolist() for name in METRICS), strict=True)
    found = zip(piece.groups, rewards, metrics, strict=True)
    for rollout in piece.rollouts:
        location = {rollout.location.kind: rollout.location.number}
        if rollout.fault is not None:
            yield {**location, "error": rollout.fault._asdict()}
            continue
        group, values, measured = next(found)
        named = dict(zip(names, values, strict=True))
        yield {**location, "group": group, "rewards": named, "metrics": dict(zip(METRICS, measured, strict=True))}

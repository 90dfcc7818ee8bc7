"""Converts rows of columns to JSON objects."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from ....kernels.score import COMPONENTS
from ..rows.output import RESULT_NAMES

__all__ = ["json_rows"]


def json_rows(batch: Any, results: Any, components: bool) -> Iterator[bytes]:
    """Yield each row of a batch with its results, like a scored JSONL row.

    Times and decimals become text, bytes become base64, and non-finite floats become null.
    """
    names = [name for name in batch.schema.names if name not in RESULT_NAMES]
    columns = [_values(batch.column(name)) for name in names]
    for k, result in enumerate(results.to_pylist()):
        row = dict(zip(names, (column[k] for column in columns), strict=True))
        yield orjson.dumps(row | _nested(result, components), default=_to_text)


def _nested(result: dict[str, Any], components: bool) -> dict[str, Any]:
    if result.get("error") is not None:
        return {"error": result["error"]}
    nested: dict[str, Any] = {"reward": result["reward"], "reason": result["reason"]}
    if components:
        nested["components"] = {name: result[name] for name in COMPONENTS}
    if "advantage" in result:
        nested["advantage"] = result["advantage"]
    return nested


def _values(column: Any) -> list[Any]:
    if pa.types.is_temporal(column.type) and not pa.types.is_duration(column.type):
        column = column.cast(pa.string())  # Python's types have no nanoseconds
    return column.to_pylist()


def _to_text(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)

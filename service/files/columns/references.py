"""Reads the references of a Parquet or Arrow file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ..rows.rows import DocumentError, Location, Rollout
from .source import open_columns

__all__ = ["column_references"]


def column_references(source: str, field: str) -> Iterator[list[Rollout]]:
    """Yield the values of one column in pieces; the response is the reference, as in `read_reference`.

    Raises DocumentError if the column is missing or the file is damaged.
    """
    with open_columns(source) as columns:
        if len(columns.schema.get_all_field_indices(field)) != 1:
            raise DocumentError(f"exactly one column {field!r} is required")
        rows = count()
        for batch in columns.batches([field]):
            yield [
                Rollout(
                    Location("row", next(rows)), b"", reference=value, response=value if isinstance(value, str) else ""
                )
                for value in batch.column(field).to_pylist()
            ]

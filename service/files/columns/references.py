"""References out of a Parquet or Arrow file, for a look at each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from ..rows.rows import DocumentError, Place, Rollout
from .source import opened_columns

__all__ = ["column_references"]


def column_references(source: str, field: str) -> Iterator[list[Rollout]]:
    """The values of one column, in pieces; the response is the reference, as for JSON (see `read_reference`).

    Raises DocumentError where the file has no such column, or is damaged.
    """
    with opened_columns(source) as columns:
        if len(columns.schema.get_all_field_indices(field)) != 1:
            raise DocumentError(f"one column {field!r} is needed")
        rows = count()
        for batch in columns.batches([field]):
            yield [
                Rollout(
                    Place("row", next(rows)), b"", reference=value, response=value if isinstance(value, str) else ""
                )
                for value in batch.column(field).to_pylist()
            ]

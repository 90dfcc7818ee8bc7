"""Reads the records of a file, one by one, whatever its format: JSONL, JSON, Parquet or Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson

from .formats import is_columnar
from .rows.rows import DocumentError, Fault, Location, decode_row, open_rows

__all__ = ["FileRecord", "open_records"]


class FileRecord(NamedTuple):
    """One record: its value (an object, if the file is as it should be), or the fault that prevents reading it."""

    location: Location
    value: Any
    fault: Fault | None
    size: int
    """Its share of the size of the file."""
    text: bytes | None = None
    """The row of a JSONL or JSON file as it is written."""


@contextmanager
def open_records(source: str, fmt: str, max_line_bytes: int) -> Iterator[tuple[Iterator[FileRecord], int | None]]:
    """Open a file ("-": standard input); yield its records, and its size, for `Progress`, or None if unknown.

    Raises DocumentError if the file is malformed as a whole, here or while its records are read.
    """
    if is_columnar(fmt):
        from .columns.source import open_columns  # needs the extra

        with open_columns(source) as columns:
            numbered = enumerate(columns.records())
            yield (FileRecord(Location("row", number), value, None, 1) for number, value in numbered), columns.rows
        return
    with open_rows(source, fmt, max_line_bytes) as (rows, document, size):
        if rows is not None:
            yield (FileRecord(row.location, *decode_row(row, max_line_bytes), row.size, row.text) for row in rows), size
        else:
            records = records_of_request(document)
            numbered = enumerate(records)
            yield (FileRecord(Location("record", n), value, None, 1) for n, value in numbered), len(records)


def records_of_request(document: str) -> list[Any]:
    """Return the records in the body of a request for an evaluation; raises DocumentError."""
    try:
        request = orjson.loads(document)
    except orjson.JSONDecodeError as error:
        raise DocumentError(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    records = request.get("records") if isinstance(request, dict) else None
    if not isinstance(records, list):
        raise DocumentError("neither an array of records nor an object with an array `records`")
    return records

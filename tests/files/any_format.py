"""Files of rows in every format of `assay score`."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.command_line import read_rows, write_rows

FORMATS = ["jsonl", "json", "parquet", "arrow"]
COLUMNAR = ["parquet", "arrow", "arrows", "feather"]


def write(path: Path, rows: Any, rows_a_batch: int = 4) -> Path:
    """Write rows in the format of the extension, or any document as JSON."""
    if path.suffix == ".jsonl":
        return write_rows(path, rows)
    if path.suffix == ".json":
        path.write_text(json.dumps(rows))
        return path
    names = dict.fromkeys(name for row in rows for name in row)
    return write_table(path, pa.table({name: [row.get(name) for row in rows] for name in names}), rows_a_batch)


def write_table(path: Path, table: pa.Table, rows_a_batch: int | None = None) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows_a_batch)
        return path
    make = pa.ipc.new_stream if path.suffix == ".arrows" else pa.ipc.new_file
    with make(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows_a_batch)
    return path


def read_table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    return (pa.ipc.open_stream if path.suffix == ".arrows" else pa.ipc.open_file)(pa.OSFile(str(path))).read_all()


def read(path: Path, components: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of a file without the fields that are null; components are an object as in JSON."""
    if path.suffix == ".jsonl":
        return read_rows(path)
    if path.suffix == ".json":
        document: list[dict[str, Any]] = json.loads(path.read_bytes())
        return document
    rows = [{name: value for name, value in row.items() if value is not None} for row in read_table(path).to_pylist()]
    for row in rows:
        if values := {name: row.pop(name) for name in components if name in row}:
            row["components"] = values
    return rows

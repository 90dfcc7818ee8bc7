"""Writes tables to one Parquet or Arrow file, which appears only when complete."""

from __future__ import annotations

import shutil
import tempfile
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ..rows.atomic_file import close_atomic, open_atomic, temp_dir_for

__all__ = ["ColumnOutput"]

GROUP_BYTES = 64 * 2**20
GROUP_ROWS = 2**17
"""Approximate maximum size of a Parquet row group; one for each piece would be too small."""


class ColumnOutput:
    """A file being written; an `arrow` file keeps dictionaries only if they never change."""

    def __init__(self, target: str, fmt: str) -> None:
        self._target = target
        self._format = fmt

    def __enter__(self) -> Self:
        self._pending: list[Any] = []
        self._writer: Any = None
        self._stream: BinaryIO = open_atomic(self._target)
        # The writers need a position, which pipes do not have.
        self._stage = self._stream if temp_dir_for(self._target) else tempfile.TemporaryFile()
        return self

    def open(self, schema: Any) -> None:
        """Start writing tables with this schema."""
        if self._format == "parquet":
            self._writer = pq.ParquetWriter(self._stage, schema)
        else:
            make = pa.ipc.new_file if self._format == "arrow" else pa.ipc.new_stream
            self._writer = make(self._stage, schema)

    def write(self, table: Any) -> None:
        """Write a table; raises OSError."""
        if self._format != "parquet":
            self._writer.write_table(table)
            return
        self._pending.append(table)
        if sum(part.nbytes for part in self._pending) >= GROUP_BYTES or sum(map(len, self._pending)) >= GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.concat_tables(self._pending), row_group_size=GROUP_ROWS)
            self._pending = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        good = False
        try:
            if kind is None:
                self._flush()
                self._writer.close()
                if self._stage is not self._stream:
                    self._stage.seek(0)
                    shutil.copyfileobj(self._stage, self._stream)
                good = True
        finally:
            if self._stage is not self._stream:
                self._stage.close()
            close_atomic(self._stream, self._target, good)

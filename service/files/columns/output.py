"""Tables into one Parquet or Arrow file, which appears whole at the end or not at all."""

from __future__ import annotations

import shutil
import tempfile
from types import TracebackType
from typing import Any, BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from ..rows.atomic_file import begun, beside, finish

__all__ = ["ColumnOutput"]

GROUP_BYTES = 64 * 2**20
GROUP_ROWS = 2**17
"""A row group of Parquet has at most about so many bytes and rows; one for each piece would be many and small."""


class ColumnOutput:
    """A file in the making; Arrow files (`arrow`) keep dictionaries only where these never change."""

    def __init__(self, target: str, form: str) -> None:
        self._target = target
        self._form = form

    def __enter__(self) -> Self:
        self._waiting: list[Any] = []
        self._writer: Any = None
        self._stream: BinaryIO = begun(self._target)
        # A pipe cannot tell a position, which the writers ask for.
        self._stage = self._stream if beside(self._target) else tempfile.TemporaryFile()
        return self

    def open(self, schema: Any) -> None:
        """Begin to write tables of this schema."""
        if self._form == "parquet":
            self._writer = pq.ParquetWriter(self._stage, schema)
        else:
            make = pa.ipc.new_file if self._form == "arrow" else pa.ipc.new_stream
            self._writer = make(self._stage, schema)

    def write(self, table: Any) -> None:
        """Write a table; raises OSError where that fails."""
        if self._form != "parquet":
            self._writer.write_table(table)
            return
        self._waiting.append(table)
        if sum(part.nbytes for part in self._waiting) >= GROUP_BYTES or sum(map(len, self._waiting)) >= GROUP_ROWS:
            self._write_waiting()

    def _write_waiting(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=GROUP_ROWS)
            self._waiting = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        good = False
        try:
            if kind is None:
                self._write_waiting()
                self._writer.close()
                if self._stage is not self._stream:
                    self._stage.seek(0)
                    shutil.copyfileobj(self._stage, self._stream)
                good = True
        finally:
            if self._stage is not self._stream:
                self._stage.close()
            finish(self._stream, self._target, good)

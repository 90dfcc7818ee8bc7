"""Result columns of scored batches, and the file they are written to.

Results are spooled to a temporary file, because advantages and faults are known only at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ..output_file import output_file, temp_dir_for
from ..summary import GroupedRewards
from .batch_scorer import ScoredBatch

__all__ = ["SpooledResults", "column_output", "error_field", "result_columns", "result_fields"]

GROUP_BYTES = 64 * 2**20
GROUP_ROWS = 2**17
"""Approximate maximum size of a Parquet row group; one for each piece would be too small."""


def result_fields(components: Sequence[str], advantages: bool) -> list[Any]:
    """Return the fields of the result columns that every file has."""
    numbers = [*components, *(("advantage",) if advantages else ())]
    first = [pa.field("reward", pa.float64()), pa.field("reason", pa.string())]
    return first + [pa.field(name, pa.float64()) for name in numbers]


def error_field(numbered: bool) -> Any:
    """Return the field of the column `error`: why a row has no reward, and its number if that is wanted."""
    rows = [("row", pa.int64())] if numbered else []
    return pa.field("error", pa.struct([("reason", pa.string()), ("detail", pa.string()), *rows]))


def result_columns(scored: ScoredBatch, components: Sequence[str], first: int | None = None) -> list[Any]:
    """Return reward, reason, these components and error of a batch; null where they do not apply.

    first: the number of the first row; without it, errors have no numbers.
    """
    scores, valid = scored.scores, scored.valid
    reasons = np.full(len(valid), None, object)
    reasons[valid] = scores.reasons
    columns = [scores.rewards, *(scores.components[name] for name in components)]
    rewards, *numbers = (_scatter(column, valid) for column in columns)
    errors: list[dict[str, Any] | None] = [None] * len(valid)
    for row, fault in scored.faults.items():
        errors[row] = fault._asdict() if first is None else {**fault._asdict(), "row": first + row}
    error = pa.array(errors, error_field(first is not None).type)
    return [rewards, pa.array(reasons, pa.string()), *numbers, error]


def _scatter(values: np.ndarray, valid: np.ndarray) -> Any:
    """Return an Arrow array with the values at the valid rows and null at the others."""
    column = np.zeros(len(valid), values.dtype)
    column[valid] = values
    return pa.array(column, mask=~valid)


class SpooledResults:
    """Spools result columns to a file, null for rows with a fault; for advantages, 16 bytes per row stay in memory.

    named_groups: whether a column names the groups.
    """

    def __init__(self, file: IO[bytes], components: Sequence[str], advantages: bool, named_groups: bool) -> None:
        self._file = file
        self._components = components
        self._fields = result_fields(components, advantages)
        self._grouped = GroupedRewards(named_groups) if advantages else None
        self._schema = pa.schema([*result_fields(components, False), error_field(numbered=True)])
        self._writer = pa.ipc.new_stream(file, self._schema)
        self._rows = 0
        self._faults = 0

    def add(self, scored: ScoredBatch) -> None:
        """Add the results of one batch."""
        columns = result_columns(scored, self._components, self._rows)
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += len(scored.valid)
        self._faults += len(scored.faults)
        if self._grouped is not None:
            self._grouped.add(scored.scores.rewards, scored.groups.tolist())

    def schema(self) -> Any:
        """Return the schema of `tables`: with `error` only if a row has one."""
        return pa.schema([*self._fields, error_field(numbered=True)] if self._faults else self._fields)

    def tables(self, ddof: int) -> Iterator[Any]:
        """Yield the results of each batch as a table, in order; raises InvalidRequest as `Scores.advantages`."""
        advantages = self._grouped.advantages(ddof) if self._grouped is not None else None
        self._writer.close()
        self._file.seek(0)
        schema, first = self.schema(), 0
        with pa.ipc.open_stream(self._file) as reader:
            for batch in reader:
                table = pa.Table.from_batches([batch])
                if advantages is not None:
                    column = advantages[first : first + batch.num_rows]
                    table = table.append_column("advantage", pa.array(column, mask=np.isnan(column)))
                yield table.select(schema.names)
                first += batch.num_rows


@contextmanager
def column_output(target: str, fmt: str, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes tables to a Parquet or Arrow file, which appears only when complete.

    An `arrow` file keeps dictionaries only if they never change.
    """
    special = temp_dir_for(target) is None  # the writers need a position, which pipes do not have
    with output_file(target) as stream, tempfile.TemporaryFile() if special else nullcontext(stream) as stage:
        if fmt == "parquet":
            with pq.ParquetWriter(stage, schema) as writer:
                yield from _row_groups(writer)
        else:
            with (pa.ipc.new_file if fmt == "arrow" else pa.ipc.new_stream)(stage, schema) as writer:
                yield writer.write_table
        if special:
            stage.seek(0)
            shutil.copyfileobj(stage, stream)


def _row_groups(writer: Any) -> Iterator[Callable[[Any], None]]:
    """Yield a function that collects tables and writes them to a Parquet file in row groups."""
    pending: list[Any] = []

    def flush() -> None:
        if pending:
            writer.write_table(pa.concat_tables(pending), row_group_size=GROUP_ROWS)
            pending.clear()

    def write(table: Any) -> None:
        pending.append(table)
        if sum(part.nbytes for part in pending) >= GROUP_BYTES or sum(map(len, pending)) >= GROUP_ROWS:
            flush()

    yield write
    flush()

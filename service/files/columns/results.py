"""Spools results to a temporary file, because advantages and faults are known only at the end."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa

from ....kernels.score import COMPONENTS
from ...http.wire.arrow_codec import REASON_NAMES
from ...scoring.scores import group_advantages
from .batch_scorer import ScoredBatch

__all__ = ["ERROR", "SpooledResults", "result_columns", "result_fields"]

ERROR = pa.struct([("reason", pa.string()), ("detail", pa.string()), ("row", pa.int64())])
"""Type of the column `error`: why a row has no reward; rows count from 0."""


def result_fields(components: bool, advantages: bool) -> list[Any]:
    """Return the fields of the result columns that every file has."""
    numbers = [*(COMPONENTS if components else ()), *(("advantage",) if advantages else ())]
    first = [pa.field("reward", pa.float64()), pa.field("reason", pa.string())]
    return first + [pa.field(name, pa.float64()) for name in numbers]


class SpooledResults:
    """Spools result columns, null for rows with a fault; for advantages, 16 bytes per row stay in memory."""

    def __init__(self, temp_dir: str | None, components: bool, advantages: bool) -> None:
        self._temp_dir = temp_dir
        self._schema = pa.schema([*result_fields(components, False), pa.field("error", ERROR)])
        self._components = components
        self._advantages = advantages
        self._rewards = array("d")
        self._groups = array("q")
        self._rows = 0
        self._faults = 0

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(dir=self._temp_dir)
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._file.close()

    def add(self, scored: ScoredBatch) -> None:
        """Add the results of one batch."""
        scores, rows = scored.scores, len(scored.valid)
        errors: list[dict[str, Any] | None] = [None] * rows
        for row, fault in scored.faults.items():
            errors[row] = {**fault._asdict(), "row": self._rows + row}
        columns = [*result_columns(scored, self._components), pa.array(errors, ERROR)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += rows
        self._faults += len(scored.faults)
        if self._advantages:
            self._rewards.extend(scores.rewards.tolist())
            self._groups.extend(scored.groups.tolist())

    def schema(self) -> Any:
        """Return the schema of `tables`: with `error` only if a row has one."""
        fields = result_fields(self._components, self._advantages)
        return pa.schema([*fields, pa.field("error", ERROR)] if self._faults else fields)

    def tables(self, ddof: int) -> Iterator[Any]:
        """Yield the results of each batch as a table, in order; raises InvalidRequest if no group has two rewards."""
        advantages = self._all_advantages(ddof) if self._advantages else None
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

    def _all_advantages(self, ddof: int) -> np.ndarray:
        """Return float64 (rows,): the advantages, NaN for rows with a fault."""
        groups = np.array(self._groups, np.int64)
        scored = groups >= 0
        advantages = np.full(len(groups), np.nan)
        advantages[scored] = group_advantages(np.array(self._rewards, np.float64), groups[scored], ddof)
        return advantages


def result_columns(scored: ScoredBatch, components: bool) -> list[Any]:
    """Return reward, reason and, optionally, components of a batch; null for rows with a fault."""
    scores, valid = scored.scores, scored.valid
    reason = REASON_NAMES.take(_scatter(scores.reason_codes, valid))
    numbers = scores.components.values() if components else ()
    return [_scatter(scores.rewards, valid), reason, *(_scatter(column, valid) for column in numbers)]


def _scatter(values: np.ndarray, valid: np.ndarray) -> Any:
    """Return an Arrow array with the values at the valid rows and null at the others."""
    column = np.zeros(len(valid), values.dtype)
    column[valid] = values
    return pa.array(column, mask=~valid)

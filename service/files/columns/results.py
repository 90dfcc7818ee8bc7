"""Results wait in a temporary file until the whole file is scored: advantages and faults show only then."""

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

__all__ = ["ERROR", "WaitingResults", "result_fields"]

ERROR = pa.struct([("reason", pa.string()), ("detail", pa.string()), ("row", pa.int64())])
"""Why a row has no reward; rows count from 0."""


def result_fields(components: bool, advantages: bool) -> list[Any]:
    """The columns that every file of results has."""
    numbers = [*(COMPONENTS if components else ()), *(("advantage",) if advantages else ())]
    first = [pa.field("reward", pa.float64()), pa.field("reason", pa.string())]
    return first + [pa.field(name, pa.float64()) for name in numbers]


class WaitingResults:
    """Result columns of batches, null where a row has a fault; in memory stay 16 bytes a row, for advantages."""

    def __init__(self, folder: str | None, components: bool, advantages: bool) -> None:
        self._folder = folder
        self._schema = pa.schema([*result_fields(components, False), pa.field("error", ERROR)])
        self._components = components
        self._advantages = advantages
        self._rewards = array("d")
        self._groups = array("q")
        self._rows = 0
        self._faults = 0

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile(dir=self._folder)
        self._writer = pa.ipc.new_stream(self._file, self._schema)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
        self._file.close()

    def add(self, scored: ScoredBatch) -> None:
        """Keep the results of one batch."""
        scores, good = scored.scores, scored.good
        reasons = np.zeros(len(good), np.uint8)
        reasons[good] = scores.reason_codes
        numbers = [scores.rewards, *(scores.components.values() if self._components else ())]
        reward, *components = (_spread(column, good) for column in numbers)
        reason = REASON_NAMES.take(pa.array(reasons, mask=~good))
        errors: list[dict[str, Any] | None] = [None] * len(good)
        for row, fault in scored.faults.items():
            errors[row] = {**fault._asdict(), "row": self._rows + row}
        columns = [reward, reason, *components, pa.array(errors, ERROR)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._rows += len(good)
        self._faults += len(scored.faults)
        if self._advantages:
            self._rewards.extend(scores.rewards.tolist())
            self._groups.extend(scored.groups.tolist())

    def schema(self) -> Any:
        """The columns that `tables` will have: `error` only where a row has one."""
        fields = result_fields(self._components, self._advantages)
        return pa.schema([*fields, pa.field("error", ERROR)] if self._faults else fields)

    def tables(self, ddof: int) -> Iterator[Any]:
        """The results of each batch as a table, in order; raises InvalidRequest where advantages have no group."""
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
        """float64 (rows,), NaN for a row with a fault."""
        groups = np.array(self._groups, np.int64)
        scored = groups >= 0
        advantages = np.full(len(groups), np.nan)
        advantages[scored] = group_advantages(np.array(self._rewards, np.float64), groups[scored], ddof)
        return advantages


def _spread(values: np.ndarray, good: np.ndarray) -> Any:
    """The values at the rows that are good, null at the others."""
    spread = np.zeros(len(good))
    spread[good] = values
    return pa.array(spread, mask=~good)

"""Record batches of Parquet and Arrow: their scores, and the columns of results.

Results are spooled to a temporary file, because advantages and faults are known only at the end.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import IO, Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...rewards.registry import NUMBERS, SCORE
from ...rewards.scores import Scores, StepTable
from ...wire.arrow_codec import steps_array, text_column_of
from ...wire.string_views import has_views, is_list, without_views
from ..files.columns import json_text_of, json_values, require_bytes
from ..jobs.row_tasks import RowTasks
from ..jobs.summary import GroupedRewards
from ..rows.rows import (
    NO_GROUP,
    STEP_RESULTS,
    Fault,
    Fields,
    Location,
    Rollout,
    missing_fields,
    numbered,
    reference_of,
    without_nulls,
)
from .output_file import output_file, temp_dir_for

NO_RESPONSE = Fault("not_a_string", "the response is null")


class ScoredBatch(NamedTuple):
    """The results of one batch: `scores` has a row for each row that `valid` (bool, (rows,)) marks, in order.

    faults: faults of the other rows, by row. groups: int64 (rows,), the group of each row, -1 for rows with a fault.
    """

    scores: Scores
    valid: np.ndarray
    faults: dict[int, Fault]
    groups: np.ndarray


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text, in any layout, or a dictionary of text."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return _is_column_text(kind) or bool(pa.types.is_string_view(kind))


def is_reference(kind: Any) -> bool:
    """Return whether an Arrow type may hold references of SCORE: texts, objects, or lists of either."""
    if is_list(kind):
        kind = kind.value_type
    return is_text(kind) or bool(pa.types.is_struct(kind))


def _is_column_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


class BatchScorer:
    """Scores the batches of one file; group numbers are valid for the whole file."""

    def __init__(self, tasks: RowTasks, fields: Fields, grouped: bool) -> None:
        self._tasks = tasks
        self._fields = fields
        self._grouped = grouped
        self._numbers: dict[str | bytes, int] = {}

    def score(self, batch: Any) -> ScoredBatch:
        """Score every row with a response, a valid reference and a task that gives rewards."""
        batch = as_plain(batch)
        named = self._named(batch)
        faults = {row: fault for row, (_, fault) in enumerate(named) if fault is not None}
        codes = np.array([NUMBERS[name] for name, _ in named], np.uint8)
        groups = np.full(len(codes), -1, np.int64)
        as_columns = codes == NUMBERS[SCORE]
        readable = np.isin(np.arange(len(codes)), list(faults), invert=True)
        parts = []
        if not self._tasks.other_tasks or (readable & as_columns).any():
            parts.append(self._score_columns(batch, np.flatnonzero(readable & as_columns), faults, groups))
        if self._tasks.other_tasks:
            parts.append(self._score_records(batch, np.flatnonzero(readable & ~as_columns), faults, groups))
        return ScoredBatch(join_scores(parts), groups >= 0, faults, groups)

    def _named(self, batch: Any) -> list[tuple[str, Fault | None]]:
        """Return the task or the fault of each row by the column that holds it, if there is one."""
        name = next((name for name in self._tasks.columns if name in batch.schema.names), None)
        if name is None:
            return [self._tasks.named_by({})] * batch.num_rows
        return list(map(self._tasks.named_by, batch.select([name]).to_pylist()))

    def _score_columns(
        self, batch: Any, rows: np.ndarray, faults: dict[int, Fault], groups: np.ndarray
    ) -> tuple[np.ndarray, Scores]:
        """Score rows of SCORE; add their faults and set the groups of the others, whose numbers are returned."""
        absent = missing_fields(self._fields, batch.schema.names)
        if absent is not None:
            faults |= dict.fromkeys(rows.tolist(), absent)
            return rows[:0], self._tasks.score([])
        batch = rows_of(batch, rows)
        responses = _as_strings(batch.column(self._fields.response))
        entries, index = _distinct(batch.column(self._fields.reference))
        wrong = [(index < 0, Fault("wrong_type", f"{self._tasks.about('score')}: it is null"))]
        if self._fields.group is not None:
            wrong.append((_is_null(_decoded(batch.column(self._fields.group))), NO_GROUP))
        wrong.append((_is_null(responses), NO_RESPONSE))
        for mask, fault in wrong:
            faults |= dict.fromkeys(rows[mask].tolist(), fault)
        valid = ~np.logical_or.reduce([mask for mask, _ in wrong])
        if not valid.all():
            responses = responses.filter(pa.array(valid))
        numbers, local = np.unique(index[valid], return_inverse=True)
        chosen = entries.take(pa.array(numbers, pa.int64()))
        is_column = _is_column_text(chosen.type)
        in_column = partial(reference_of, in_column=True)
        references = text_column_of(chosen) if is_column else list(map(in_column, chosen.to_pylist()))
        scores, refused = self._tasks.score_columns(text_column_of(responses), references, local.astype(np.int64))
        scored = np.delete(rows[valid], list(refused))
        faults |= {int(rows[valid][row]): fault for row, fault in refused.items()}
        groups[scored] = 0
        if self._grouped:
            values, value_index = chosen.to_pylist(), local
            if self._fields.group is not None:
                values, value_index = batch.column(self._fields.group).to_pylist(), np.flatnonzero(valid)
            keys = np.array([numbered(self._numbers, value) for value in values], np.int64)
            groups[scored] = np.delete(keys[value_index], list(refused))
        return scored, scores

    def _score_records(
        self, batch: Any, rows: np.ndarray, faults: dict[int, Fault], groups: np.ndarray
    ) -> tuple[np.ndarray, Scores]:
        """Score rows of other tasks; the rest is as in `_score_columns`."""
        rollouts = [Rollout(Location("row", row), b"") for row in rows.tolist()]
        if rollouts:
            for rollout, record in zip(rollouts, records_of(rows_of(batch, rows)), strict=True):
                values = without_nulls({name: without_nulls(value) for name, value in record.items()})
                named = {name: record[name] for name in self._fields if name in record and name not in values}
                self._tasks.fill(rollout, values | named, self._fields)
        scores = self._tasks.score(rollouts)
        faults |= {rollout.location.number: rollout.fault for rollout in rollouts if rollout.fault is not None}
        valid = [rollout for rollout in rollouts if rollout.fault is None]
        for rollout in valid:
            groups[rollout.location.number] = numbered(self._numbers, rollout.group) if self._grouped else 0
        return np.array([rollout.location.number for rollout in valid], np.int64), scores


def join_scores(parts: list[tuple[np.ndarray, Scores]]) -> Scores:
    """Return the scores of disjoint rows, whose numbers are int64 and ascending in each part, in the order of rows."""
    if len(parts) == 1:
        return parts[0][1]
    numbers = np.concatenate([rows for rows, _ in parts])
    order = np.argsort(numbers)
    scores = [part for _, part in parts]
    of_score, steps = np.searchsorted(numbers[order], parts[0][0]), scores[0].steps  # other tasks have none
    return Scores(
        np.concatenate([part.rewards for part in scores])[order],
        np.concatenate([part.reason_codes for part in scores])[order],
        np.concatenate([part.measures for part in scores], axis=1)[:, order],
        np.arange(len(order)),
        task_codes=np.concatenate([part.task_codes for part in scores])[order],
        steps=None if steps is None else steps.spread(of_score, len(order)),
    )


def as_plain(batch: Any) -> Any:
    """Return a valid batch with strings in place of views."""
    if not any(has_views(kind) for kind in batch.schema.types):
        return batch
    return pa.RecordBatch.from_arrays([without_views(c, require_bytes) for c in batch.columns], batch.schema.names)


def rows_of(batch: Any, rows: np.ndarray) -> Any:
    """Return some rows of a batch, in order."""
    if len(rows) == batch.num_rows:
        return batch
    chosen = np.zeros(batch.num_rows, bool)
    chosen[rows] = True
    try:
        return batch.filter(pa.array(chosen))
    except pa.ArrowNotImplementedError:  # not for every type (views of lists)
        return pa.concat_batches([batch.slice(row, 1) for row in rows.tolist()])


def records_of(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as a JSON file has them."""
    columns = [json_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield orjson.loads(json_text_of(dict(zip(batch.schema.names, values, strict=True))))


def _is_null(column: Any) -> np.ndarray:
    nulls: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _decoded(column: Any) -> Any:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _as_strings(column: Any) -> Any:
    column = _decoded(column)
    return column if _is_column_text(column.type) else column.cast(pa.large_string())


def _distinct(column: Any) -> tuple[Any, np.ndarray]:
    """Return the distinct values of a column and int64 (rows,) the index of each row's value; -1 for null."""
    if not is_text(column.type):
        return _distinct_steps(column)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(_as_strings(column))
    index = pc.fill_null(column.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)
    values = _as_strings(column.dictionary)
    return values, np.where(np.isin(index, np.flatnonzero(_is_null(values))), -1, index)


def _distinct_steps(column: Any) -> tuple[Any, np.ndarray]:
    """Return the same for references that are not text; they have no dictionaries, and few are distinct."""
    values = column.to_pylist()
    numbers: dict[str | bytes, int] = {}
    index = [-1 if value is None else numbered(numbers, value) for value in values]
    first = np.unique(index, return_index=True)[1]
    rows = [row for row in first.tolist() if index[row] >= 0]
    return column.take(pa.array(rows, pa.int64())), np.array(index, np.int64)


GROUP_BYTES = 64 * 2**20
GROUP_ROWS = 2**17
"""Approximate maximum size of a Parquet row group; one for each piece would be too small."""


STEPS = steps_array(StepTable.none(0)).type


def result_fields(components: Sequence[str], advantages: bool, steps: bool = False) -> list[Any]:
    """Return the fields of the result columns that every file has."""
    numbers = [*components, *(("advantage",) if advantages else ())]
    first = [pa.field("reward", pa.float64()), pa.field("reason", pa.string())]
    fields = first + [pa.field(name, pa.float64()) for name in numbers]
    return fields + [pa.field(*field) for field in zip(STEP_RESULTS, (STEPS, pa.int64()), strict=True) if steps]


def error_field(numbered: bool) -> Any:
    """Return the field of the column `error`: why a row has no reward, and its number if that is wanted."""
    rows = [("row", pa.int64())] if numbered else []
    return pa.field("error", pa.struct([("reason", pa.string()), ("detail", pa.string()), *rows]))


def result_columns(scored: ScoredBatch, components: Sequence[str], first: int | None = None) -> list[Any]:
    """Return reward, reason, these components, steps if there are any, and error of a batch; null where they do not
    apply.

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
    if scores.steps is not None:
        steps = scores.steps.spread(np.flatnonzero(valid), len(valid))
        alternatives = pa.array(steps.columns.alternatives, mask=~valid)
        numbers += [pc.if_else(pa.array(valid), steps_array(steps), pa.scalar(None, STEPS)), alternatives]
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

    def __init__(
        self, file: IO[bytes], components: Sequence[str], advantages: bool, named_groups: bool, steps: bool = False
    ) -> None:
        self._file = file
        self._components = components
        self._fields = result_fields(components, advantages, steps)
        self._grouped = GroupedRewards(named_groups) if advantages else None
        self._schema = pa.schema([*result_fields(components, False, steps), error_field(numbered=True)])
        self._writer = pa.ipc.new_stream(file, self._schema)
        self._rows = 0
        self._faults = 0

    def add(self, scored: ScoredBatch) -> None:
        columns = result_columns(scored, self._components, self._rows + 1)
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

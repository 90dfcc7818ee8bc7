"""Scores record batches: columns of SCORE go to the kernels as they are, rows of other tasks are read as records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from ...http.wire.arrow_codec import text_column_of
from ...records.columns import json_text_of, json_values
from ...records.rows import NO_GROUP, Fault, Fields, Location, Rollout, missing_fields, numbered, without_nulls
from ...rewards.registry import NUMBERS, REWARDS
from ...rewards.scores import Scores
from ..row_tasks import RowTasks

__all__ = ["BatchScorer", "ScoredBatch", "is_text"]

NO_RESPONSE = Fault("not_a_string", "the response is null")


class ScoredBatch(NamedTuple):
    """The results of one batch: `scores` has a row for each row that `valid` (bool, (rows,)) marks, in order.

    faults: those of the other rows, by row. groups: int64 (rows,), the group of each row, -1 for rows with a fault.
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
        named = self._named(batch)
        faults = {row: fault for row, (_, fault) in enumerate(named) if fault is not None}
        codes = np.array([NUMBERS[name] for name, _ in named], np.uint8)
        groups = np.full(len(codes), -1, np.int64)
        as_columns = np.array([reward.in_kernels for reward in REWARDS])[codes]
        readable = np.isin(np.arange(len(codes)), list(faults), invert=True)
        parts = []
        if not self._tasks.has_others or (readable & as_columns).any():
            parts.append(self._score_columns(batch, np.flatnonzero(readable & as_columns), faults, groups))
        if self._tasks.has_others:
            parts.append(self._score_records(batch, np.flatnonzero(readable & ~as_columns), faults, groups))
        return ScoredBatch(joined(parts), groups >= 0, faults, groups)

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
        references = text_column_of(chosen) if is_column else list(map(without_nulls, chosen.to_pylist()))
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
                there = without_nulls({name: without_nulls(value) for name, value in record.items()})
                named = {name: record[name] for name in self._fields if name in record and name not in there}
                self._tasks.fill(rollout, there | named, self._fields)
        scores = self._tasks.score(rollouts)
        faults |= {one.location.number: one.fault for one in rollouts if one.fault is not None}
        valid = [one for one in rollouts if one.fault is None]
        for one in valid:
            groups[one.location.number] = numbered(self._numbers, one.group) if self._grouped else 0
        return np.array([one.location.number for one in valid], np.int64), scores


def joined(parts: list[tuple[np.ndarray, Scores]]) -> Scores:
    """Return the scores of disjoint rows, whose numbers are int64 and ascending in each part, in the order of rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    scores = [part for _, part in parts]
    return Scores(
        np.concatenate([part.rewards for part in scores])[order],
        np.concatenate([part.reason_codes for part in scores])[order],
        np.concatenate([part.measures for part in scores], axis=1)[:, order],
        np.arange(len(order)),
        task_codes=np.concatenate([part.task_codes for part in scores])[order],
    )


def rows_of(batch: Any, rows: np.ndarray) -> Any:
    """Return some rows of a batch, in order."""
    if len(rows) == batch.num_rows:
        return batch
    chosen = np.zeros(batch.num_rows, bool)
    chosen[rows] = True
    try:
        return batch.filter(pa.array(chosen))
    except pa.ArrowNotImplementedError:  # not for every type (views)
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

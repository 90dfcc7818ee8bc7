"""Scores record batches whose rows are of other tasks than SCORE, or of several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from ...evaluate.task_rewards import SCORE
from ...records.columns import json_text_of, json_values
from ...records.rows import Fault, Fields, Location, Rollout, missing_fields, numbered, without_nulls
from ...scoring.scores import Scores
from ..row_tasks import RowTasks, codes_of, merged
from .batch_scorer import BatchScorer, ScoredBatch

__all__ = ["batch_scorer", "records_of"]


class TaskBatchScorer:
    """Scores the batches of one file; group numbers are valid for the whole file.

    SCORE's rows stay columns, the others are read like rows of JSON.
    """

    def __init__(self, tasks: RowTasks, fields: Fields, grouped: bool) -> None:
        self._tasks = tasks
        self._fields = fields
        self._grouped = grouped
        self._numbers: dict[str | bytes, int] = {}

    @cached_property
    def _of_score(self) -> BatchScorer:
        about = self._tasks.about(SCORE)
        return BatchScorer(self._tasks.scorer, self._fields, self._grouped, about, self._numbers)

    def score(self, batch: Any) -> ScoredBatch:
        """Score every row with a response, a valid reference and a task that gives rewards."""
        named = [self._tasks.named_by(record) for record in self._task_fields(batch)]
        faults = {row: fault for row, (_, fault) in enumerate(named) if fault is not None}
        codes = codes_of(name for name, _ in named)
        groups = np.full(len(codes), -1, np.int64)
        readable = np.ones(len(codes), bool)
        readable[list(faults)] = False
        parts = {}
        if rows := np.flatnonzero(readable & (codes == 0)).tolist():
            parts[SCORE] = self._score(batch, rows, faults, groups)
        others = self._read(batch, np.flatnonzero(readable & (codes > 0)).tolist())
        faults |= {one.location.number: one.fault for one in others if one.fault is not None}
        others = [one for one in others if one.fault is None]
        parts |= self._tasks.score_others(others)
        for one in others:
            groups[one.location.number] = numbered(self._numbers, one.group) if self._grouped else 0
        valid = groups >= 0
        return ScoredBatch(merged(codes[valid], parts, self._tasks.settings.advantage_ddof), valid, faults, groups)

    def _task_fields(self, batch: Any) -> Iterable[dict[str, Any]]:
        """Return for each row the column that holds its task, if there is one."""
        name = next((name for name in self._tasks.columns if name in batch.schema.names), None)
        return batch.select([name]).to_pylist() if name is not None else [{}] * batch.num_rows

    def _score(self, batch: Any, rows: list[int], faults: dict[int, Fault], groups: np.ndarray) -> Scores:
        """Score rows of SCORE; add their faults and set their groups."""
        absent = missing_fields(self._fields, batch.schema.names)
        if absent is not None:
            faults |= dict.fromkeys(rows, absent)
            return self._tasks.scorer.score([], [])
        scored = self._of_score.score(rows_of(batch, rows))
        faults |= {rows[row]: fault for row, fault in scored.faults.items()}
        groups[rows] = scored.groups
        return scored.scores

    def _read(self, batch: Any, rows: list[int]) -> list[Rollout]:
        """Return rows of other tasks, each with its number as location."""
        rollouts = [Rollout(Location("row", row), b"") for row in rows]
        if rows:
            for rollout, record in zip(rollouts, records_of(rows_of(batch, rows)), strict=True):
                there = without_nulls({name: without_nulls(value) for name, value in record.items()})
                named = {name: record[name] for name in self._fields if name in record and name not in there}
                self._tasks.fill(rollout, there | named, self._fields)
        return rollouts


def batch_scorer(tasks: RowTasks, fields: Fields, grouped: bool) -> BatchScorer | TaskBatchScorer:
    """Return what scores the batches of a file."""
    if tasks.has_others:
        return TaskBatchScorer(tasks, fields, grouped)
    return BatchScorer(tasks.scorer, fields, grouped)


def rows_of(batch: Any, rows: list[int]) -> Any:
    """Return some rows of a batch, in order."""
    if len(rows) == batch.num_rows:
        return batch
    chosen = np.zeros(batch.num_rows, bool)
    chosen[rows] = True
    try:
        return batch.filter(pa.array(chosen))
    except pa.ArrowNotImplementedError:  # not for every type (views)
        return pa.concat_batches([batch.slice(row, 1) for row in rows])


def records_of(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as a JSON file has them."""
    columns = [json_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield orjson.loads(json_text_of(dict(zip(batch.schema.names, values, strict=True))))

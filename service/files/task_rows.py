"""Scores rows with the reward of another task; a row is a record of its benchmark, or a response and a reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..evaluate.task import Task
from ..evaluate.task_rewards import TaskScores, reward_responses
from .rows.rows import Fault, Fields, Rollout, Row, decode_rollout, missing_fields
from .score_rows import Job, RowScorer

__all__ = ["scorer_of_task_rows"]

ADVANTAGE_DDOF = 1


def scorer_of_task_rows(job: Job, task: Task, options: Any) -> RowScorer:
    """Return how the rows of a job are scored with the reward of a task, with checked options."""

    def read(row: Row) -> Rollout:
        rollout, record = decode_rollout(row, job.max_line_bytes)
        if rollout.fault is None:
            rollout.fault = fill(rollout, record, task, job.fields)
        return rollout

    def score(rollouts: list[Rollout]) -> TaskScores:
        valid = [rollout for rollout in rollouts if rollout.fault is None]
        responses, references = [one.response for one in valid], [one.reference for one in valid]
        return reward_responses(task, responses, references, np.arange(len(valid), dtype=np.int64), options)

    return RowScorer(read, score, ADVANTAGE_DDOF)


def fill(rollout: Rollout, record: dict[str, Any], task: Task, fields: Fields) -> Fault | None:
    """Fill the fields of a rollout from its record; return the fault that prevents it.

    The response is in the given field, or else in that of the benchmark; without a reference, the whole record is one.
    """
    response = fields.response if fields.response in record else task.response
    if fault := missing_fields([response, fields.group], record):
        return fault
    if not isinstance(record[response], str):
        return Fault("not_a_string", f"the field {response!r} is not a string")
    given = record.get(fields.reference)
    if given is None:
        given = {name: value for name, value in record.items() if name != response}
    reference, detail = task.reference(given)
    if reference is None:
        return Fault("bad_reference", f"reference: {detail}")
    known = {name: value for name, value in reference.items() if name in task.record.model_fields}
    rollout.response, rollout.reference = record[response], reference
    rollout.group = known if fields.group is None else record[fields.group]
    return None

"""Scores rows with the reward of another task; a row is a record of its benchmark, or a response and a reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..evaluate.task import Task
from ..evaluate.task_rewards import TaskScores, reward_responses
from .progress import Progress
from .rows.rows import Fault, Fields, Rollout, Row, decode_row, pieces
from .score_rows import Job, ScoredPiece, report_faults, result_lines, write_pieces
from .summary import quantiles

__all__ = ["TaskJob", "TaskSummary", "score_task_rows"]

ADVANTAGE_DDOF = 1


class TaskJob(NamedTuple):
    """The task of a run and its options."""

    task: Task
    options: Any

    def response_in(self, record: Mapping[str, Any], fields: Fields) -> str:
        """Return the field of the response in a record: the chosen one, or else that of the benchmark."""
        return fields.response if fields.response in record else self.task.response

    def read(self, row: Row, fields: Fields, max_line_bytes: int) -> Rollout:
        """Parse the response and the reference fields of one row; an error becomes its fault."""
        record, fault = decode_row(row, max_line_bytes)
        if fault is None and not isinstance(record, dict):
            fault = Fault("not_an_object", "the row is not a JSON object")
        if fault is not None:
            return Rollout(row.location, b"", fault=fault)
        rollout = Rollout(row.location, row.text or b"", frozenset(record))
        response = self.response_in(record, fields)
        rollout.fault = self._fill(rollout, record, response, fields)
        return rollout

    def _fill(self, rollout: Rollout, record: dict[str, Any], response: str, fields: Fields) -> Fault | None:
        missing = [name for name in (response, fields.group) if name is not None and name not in record]
        if missing:
            return Fault("missing_field", f"no field {', '.join(map(repr, missing))}")
        if not isinstance(record[response], str):
            return Fault("not_a_string", f"the field {response!r} is not a string")
        given = record.get(fields.reference)
        if given is None:
            given = {name: value for name, value in record.items() if name != response}
        reference, detail = self.task.reference(given)
        if reference is None:
            return Fault("bad_reference", f"reference: {detail}")
        known = {name: value for name, value in reference.items() if name in self.task.record.model_fields}
        rollout.response, rollout.reference = record[response], reference
        rollout.group = known if fields.group is None else record[fields.group]
        return None

    def score(self, rollouts: list[Rollout]) -> TaskScores:
        """Score the rollouts without a fault."""
        valid = [rollout for rollout in rollouts if rollout.fault is None]
        references = [rollout.reference for rollout in valid]
        index = np.arange(len(valid), dtype=np.int64)
        return reward_responses(self.task, [rollout.response for rollout in valid], references, index, self.options)


class TaskSummary:
    """Accumulates counts piece by piece."""

    def __init__(self) -> None:
        self._rewards: list[np.ndarray] = []
        self._reasons: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def add(self, scores: TaskScores) -> None:
        """Count one piece."""
        self._rewards.append(scores.rewards)
        self._reasons.update(scores.reasons)

    def table(self, seconds: float) -> str:
        """Return the table; `seconds` is the time from the first row read to the last one written."""
        count = self._reasons.total()
        rate = f", {count / seconds:,.0f} a second" if seconds > 0 else ""
        lines = [f"scored       {count:,} in {seconds:.2f} s{rate}"]
        if self.faults:
            lines.append(f"not scored   {self.faults.total():,}")
            lines += [f"  {reason:<20} {number:>10,}" for reason, number in self.faults.most_common()]
        if count:
            rewards = np.concatenate(self._rewards)
            values = {"mean": rewards.mean(), **quantiles(rewards)}
            lines += ["reward", "".join(f"{name:>9}" for name in values)]
            lines += ["".join(f"{value:9.4f}" for value in values.values()), "reasons"]
            lines += [f"  {reason:<20} {n:>10,}  {100 * n / count:5.1f} %" for reason, n in self._reasons.most_common()]
        return "\n".join(lines)


def score_task_rows(job: Job, task: TaskJob, rows: Iterator[Row], progress: Progress) -> TaskSummary:
    """Score `rows` and write them in their order; raises as `score_rows` does."""
    summary = TaskSummary()
    write_pieces(job, score_pieces(job, task, rows, summary, progress), ADVANTAGE_DDOF)
    return summary


def score_pieces(
    job: Job, task: TaskJob, rows: Iterator[Row], summary: TaskSummary, progress: Progress
) -> Iterator[ScoredPiece]:
    for piece in pieces(rows):
        rollouts = [task.read(row, job.fields, job.max_line_bytes) for row in piece]
        scores = task.score(rollouts)
        summary.add(scores)
        report_faults(job, rollouts, summary.faults, progress)
        yield rollouts, scores.rewards, result_lines(rollouts, results_of(scores, job.components))
        progress.advance(len(piece), sum(row.size for row in piece))


def results_of(scores: TaskScores, components: bool) -> Iterator[dict[str, Any]]:
    """Yield the results of each row: `reward`, `reason` and, with `components`, the components."""
    columns = {name: column.tolist() for name, column in scores.components.items()}
    for k, (reward, reason) in enumerate(zip(scores.rewards.tolist(), scores.reasons, strict=True)):
        gained = {"components": {name: column[k] for name, column in columns.items()}} if components else {}
        yield {"reward": reward, "reason": reason, **gained}

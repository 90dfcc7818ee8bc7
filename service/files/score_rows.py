"""Scores a file of rollouts piece by piece, keeping its rows."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import orjson

from ..errors import InvalidReference
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from ..terminal import Progress
from .formats import is_columnar
from .rows.output import Write, array_output, error_row, line_output, temp_dir_for, with_results
from .rows.rows import (
    PIECE_BYTES,
    Fault,
    Fields,
    Rollout,
    Row,
    decode_rollout,
    missing_fields,
    numbered,
    pieces,
    read_rollout,
    reference_faults,
)
from .summary import GroupedRewards, Summary

if TYPE_CHECKING:
    from ..evaluate.task import Task
    from ..evaluate.task_rewards import TaskScores

__all__ = [
    "Job",
    "Observe",
    "RowScorer",
    "column_results",
    "row_output",
    "score_rollouts",
    "score_rows",
    "scorer_of_rows",
    "scorer_of_task_rows",
]


TASK_DDOF = 1
"""Of the advantages of other tasks."""


class Job(NamedTuple):
    """What to read and to write, and in which formats (those of `formats`); "-" is a standard stream."""

    source: str
    target: str
    source_format: str = "jsonl"
    target_format: str = "jsonl"
    fields: Fields = Fields()
    components: tuple[str, ...] = ()
    """Names of the components that the output has."""
    advantages: bool = False
    max_line_bytes: int = 64 * 2**20

    @property
    def source_name(self) -> str:
        """The name of the source in messages."""
        return "stdin" if self.source == "-" else self.source

    @property
    def keeps_finished_rows(self) -> bool:
        """Whether rows are written as they are scored, not all at the end."""
        return self.target_format == "jsonl" and not self.advantages and not is_columnar(self.source_format)


class RowScorer(NamedTuple):
    """How rows are read and scored.

    read: parses a row; an error becomes the fault of the rollout. score: scores the rollouts without a fault, and may
    add faults. ddof: of the advantages. identity: `config_id` and `signature` of the rewards.
    """

    read: Callable[[Row], Rollout]
    score: Callable[[list[Rollout]], Scores | TaskScores]
    ddof: int
    identity: Mapping[str, str]


Observe = Callable[[Sequence[Rollout], Any], None]
"""Receives rows without a fault and their scores, in order, piece by piece."""


def scorer_of_rows(job: Job, scorer: Scorer) -> RowScorer:
    """Return how the rows of a job are scored with SCORE."""

    def read(row: Row) -> Rollout:
        return read_rollout(row, job.fields, job.max_line_bytes)

    ddof = scorer.settings.advantage_ddof
    return RowScorer(read, lambda rollouts: score_rollouts(scorer, rollouts), ddof, scorer.identity)


def scorer_of_task_rows(job: Job, task: Task, options: Any) -> RowScorer:
    """Return how the rows of a job are scored with the reward of a task, with checked options.

    A row is a record of its benchmark, or a response and a reference.
    """
    from ..evaluate.task_rewards import identity_of, reward_responses

    def read(row: Row) -> Rollout:
        rollout, record = decode_rollout(row, job.max_line_bytes)
        if rollout.fault is None:
            rollout.fault = _fill(rollout, record, task, job.fields)
        return rollout

    def score(rollouts: list[Rollout]) -> TaskScores:
        valid = [rollout for rollout in rollouts if rollout.fault is None]
        responses, references = [one.response for one in valid], [one.reference for one in valid]
        return reward_responses(task, responses, references, np.arange(len(valid), dtype=np.int64), options)

    return RowScorer(read, score, TASK_DDOF, identity_of(task, options))


def _fill(rollout: Rollout, record: dict[str, Any], task: Task, fields: Fields) -> Fault | None:
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


def score_rows(
    job: Job, scorer: RowScorer, rows: Iterable[Row], progress: Progress, observe: Observe | None = None
) -> Summary:
    """Score `rows` and write them in their order, with advantages if the job asks for them.

    Rows with a fault are listed on standard error and written with their error. Raises OSError if the output cannot be
    written, DocumentError, and InvalidRequest if advantages are wanted and no group has two rewards.

    Groups may be scattered, so rows with advantages are spooled to a temporary file until the last one is scored.
    """
    summary = Summary()
    scored = _score_pieces(job, scorer, rows, summary, progress, observe)
    with row_output(job, scorer.identity) as write:
        if not job.advantages:
            for _, _, lines in scored:
                write(lines)
            return summary
        grouped, numbers = GroupedRewards(), dict[str | bytes, int]()
        with tempfile.TemporaryFile(dir=temp_dir_for(job.target)) as spool:
            for rollouts, rewards, lines in scored:
                spool.writelines(line + b"\n" for line in lines)
                grouped.add(rewards, (-1 if one.fault else numbered(numbers, one.group) for one in rollouts))
            advantages = iter(grouped.advantages(scorer.ddof).tolist())
            spool.seek(0)
            while piece := spool.readlines(PIECE_BYTES):
                write([_with_advantage(line[:-1], next(advantages)) for line in piece])
    return summary


def _score_pieces(
    job: Job,
    scorer: RowScorer,
    rows: Iterable[Row],
    summary: Summary,
    progress: Progress,
    observe: Observe | None,
) -> Iterator[tuple[list[Rollout], np.ndarray, list[bytes]]]:
    """Yield rollouts, the rewards (float64) of those without a fault, and the output line of each rollout."""
    for piece in pieces(rows):
        rollouts = [scorer.read(row) for row in piece]
        scores = scorer.score(rollouts)
        summary.add(scores)
        report_faults(job, rollouts, summary.faults, progress)
        if observe is not None:
            observe([rollout for rollout in rollouts if rollout.fault is None], scores)
        results = column_results(scores, job.components)
        lines = [with_results(one, next(results)) if one.fault is None else error_row(one) for one in rollouts]
        yield rollouts, scores.rewards, lines
        progress.advance(len(piece), sum(row.size for row in piece))


def report_faults(job: Job, rollouts: Iterable[Rollout], counts: Counter[str], progress: Progress) -> None:
    """Count the faults by reason and list them on standard error."""
    for rollout in rollouts:
        if rollout.fault is not None:
            counts[rollout.fault.reason] += 1
            where = rollout.location.within(job.source_name)
            progress.message(f"{where}: {rollout.fault.detail} ({rollout.fault.reason})")


def row_output(job: Job, identity: Mapping[str, str]) -> AbstractContextManager[Write]:
    """Return the output for JSON rows in the format of the job; an exception discards incomplete output.

    identity: `config_id` and `signature`, the metadata of columns.
    """
    if is_columnar(job.target_format):
        from .columns.from_rows import rows_as_columns  # needs the extra

        return rows_as_columns(job.target, job.target_format, job.fields, job.components, job.advantages, identity)
    return line_output(job.target) if job.target_format == "jsonl" else array_output(job.target)


def score_rollouts(scorer: Scorer, rollouts: Sequence[Rollout]) -> Scores:
    """Score the rollouts without a fault; one whose reference is invalid gets a fault and is left out.

    The result has a row for each rollout that is without a fault afterwards, in order. Each distinct reference is
    parsed once.
    """
    while True:
        readable = [rollout for rollout in rollouts if rollout.fault is None]
        numbers: dict[str | bytes, int] = {}
        index = [numbered(numbers, rollout.reference) for rollout in readable]
        references: list[Any] = [None] * len(numbers)
        for rollout, number in zip(readable, index, strict=True):
            references[number] = rollout.reference
        try:
            return scorer.score([rollout.response for rollout in readable], references, index)
        except InvalidReference as error:
            faults = reference_faults(error.issues)
            for rollout, number in zip(readable, index, strict=True):
                rollout.fault = faults.get(number)


def column_results(scores: Scores | TaskScores, components: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the results of each row: `reward`, `reason` and, if there are any, these `components`."""
    rewards, reasons = scores.rewards.tolist(), map(str, scores.reasons)
    if not components:
        for reward, reason in zip(rewards, reasons, strict=True):
            yield {"reward": reward, "reason": reason}
        return
    columns = {name: scores.components[name].tolist() for name in components}
    for k, (reward, reason) in enumerate(zip(rewards, reasons, strict=True)):
        yield {"reward": reward, "reason": reason, "components": {name: values[k] for name, values in columns.items()}}


def _with_advantage(row: bytes, advantage: float) -> bytes:
    """Return the row with its advantage; unchanged if that is NaN."""
    return row if math.isnan(advantage) else row[:-1] + b',"advantage":' + orjson.dumps(advantage) + b"}"

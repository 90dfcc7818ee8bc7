"""Scores a file of rollouts piece by piece, keeping its rows."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import orjson

from ..records.files import Source, is_columnar
from ..records.forms import unfolded
from ..records.rows import PIECE_BYTES, Fields, Record, Rollout, error_row, numbered, pieces, rollout_of, with_results
from ..rewards.scores import Scores
from ..terminal import Listing, Progress
from .complete_output import json_output
from .output_file import Write, temp_dir_for
from .row_tasks import RowTasks
from .summary import GroupedRewards, Summary

__all__ = ["Job", "Observe", "Tally", "column_results", "report_faults", "row_output", "score_rows"]


class Job(NamedTuple):
    """What to read and to write, and in which format; the target "-" is standard output."""

    source: Source
    target: str
    target_format: str = "jsonl"
    fields: Fields = Fields()
    components: tuple[str, ...] = ()
    """Names of the components that the output has."""
    advantages: bool = False


Observe = Callable[[Sequence[Rollout], Any], None]
"""Receives rows of SCORE without a fault and their scores, in order, piece by piece."""


class Tally:
    """Counts the rows of a file piece by piece, lists those with a fault and shows those of SCORE to an observer."""

    def __init__(self, source: Source, tasks: RowTasks, progress: Progress, observe: Observe | None) -> None:
        self.summary = Summary()
        self._name, self._tasks, self._observe = source.name, tasks, observe
        self._listing = Listing(progress.message)
        self.summary.faults = self._listing.counts

    def add(self, scores: Scores, faulty: Iterable[Rollout], scored: Callable[[list[int]], Sequence[Rollout]]) -> None:
        """Add a piece; `scored` returns the rows of these numbers, which count rows without a fault."""
        self.summary.add(scores)
        report_faults(self._name, faulty, self._listing)
        if self._observe is not None:
            rows, scores = self._tasks.of_score(scores)
            self._observe(scored(rows.tolist()), scores)

    def close(self) -> Summary:
        """Say how many rows are not listed, and return the counts."""
        self._listing.close()
        return self.summary


def score_rows(
    job: Job, tasks: RowTasks, rows: Iterable[Record], progress: Progress, observe: Observe | None = None
) -> Summary:
    """Score `rows` and write them in their order, with advantages if the job asks for them.

    Rows with a fault are listed on standard error and written with their error. Raises OSError if the output cannot be
    written, DocumentError, and InvalidRequest if advantages are wanted that `Scores` would refuse.

    Groups may be scattered, so rows with advantages are spooled to a temporary file until the last one is scored.
    """
    tally = Tally(job.source, tasks, progress, observe)
    grouped, numbers = GroupedRewards(job.fields.group is not None), dict[str | bytes, int]()
    with (
        row_output(job, tasks.identity) as write,
        tempfile.TemporaryFile(dir=temp_dir_for(job.target)) if job.advantages else nullcontext() as spool,
    ):
        for piece in pieces(rows):
            rollouts = [_read(job, tasks, row) for row in piece]
            scores = tasks.score(rollouts)
            valid = [rollout for rollout in rollouts if rollout.fault is None]
            tally.add(scores, rollouts, lambda rows, valid=valid: [valid[row] for row in rows])  # type: ignore[misc]
            results = column_results(scores, job.components)
            lines = [with_results(one, next(results)) if one.fault is None else error_row(one) for one in rollouts]
            if spool is None:
                write(lines)
            else:
                spool.writelines(line + b"\n" for line in lines)
                grouped.add(scores.rewards, (-1 if one.fault else numbered(numbers, one.group) for one in rollouts))
            progress.advance(len(piece), sum(row.size for row in piece))
        summary = tally.close()
        if spool is not None:
            advantages = iter(grouped.advantages(tasks.settings.advantage_ddof).tolist())
            spool.seek(0)
            while spooled_lines := spool.readlines(PIECE_BYTES):
                write([_with_advantage(line[:-1], next(advantages)) for line in spooled_lines])
    return summary


def _read(job: Job, tasks: RowTasks, record: Record) -> Rollout:
    """Return the rollout of a record; an error becomes its fault."""
    rollout = rollout_of(record)
    if rollout.fault is None:
        tasks.fill(rollout, unfolded(record.value), job.fields)
    return rollout


def report_faults(name: str, rollouts: Iterable[Rollout], listing: Listing) -> None:
    """List the rollouts with a fault in the file with this name."""
    for rollout in rollouts:
        if rollout.fault is not None:
            reason, detail = rollout.fault
            listing.add(f"{rollout.location.within(name)}: {detail} ({reason})", reason, rollout.location.kind)


def row_output(job: Job, identity: Mapping[str, str]) -> AbstractContextManager[Write]:
    """Return the output for JSON rows in the format of the job; an exception discards incomplete output.

    identity: `config_id` and `signature`, the metadata of columns.
    """
    if is_columnar(job.target_format):
        from .columns.from_rows import rows_as_columns  # needs the extra

        return rows_as_columns(job.target, job.target_format, job.fields, job.components, job.advantages, identity)
    return json_output(job.target, job.target_format)


def column_results(scores: Scores, components: Sequence[str]) -> Iterator[dict[str, Any]]:
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

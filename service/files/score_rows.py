"""A file of rollouts in, the same rows with their rewards out, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .formats import is_columnar
from .progress import Progress
from .rows.atomic_file import beside
from .rows.grouped_rows import GroupedRows
from .rows.output import ArrayOutput, LineOutput, RowOutput, faulty_row, row_with
from .rows.piece_scoring import column_results, score_rollouts
from .rows.rows import Fields, Rollout, Row, pieces, read_rollout
from .summary import Summary

__all__ = ["Job", "Watcher", "row_output", "score_rows"]


class Job(NamedTuple):
    """What to read, what to write, and how both look. Formats are those of `formats`; "-" is a standard stream."""

    source: str
    target: str
    source_format: str = "jsonl"
    target_format: str = "jsonl"
    fields: Fields = Fields()
    components: bool = False
    advantages: bool = False
    longest_line: int = 64 * 2**20

    @property
    def source_name(self) -> str:
        """The source as messages name it."""
        return "stdin" if self.source == "-" else self.source

    @property
    def keeps_finished_rows(self) -> bool:
        """Whether rows are written as they are finished, rather than all at the end."""
        return self.target_format == "jsonl" and not self.advantages and not is_columnar(self.source_format)


class Watcher(Protocol):
    """Somebody who looks at every scored row as it goes by."""

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Rows without a fault, and their scores, in order."""


def row_output(job: Job) -> RowOutput:
    """Where JSON rows go in the job's format."""
    if is_columnar(job.target_format):
        from .columns.from_rows import RowsAsColumns  # needs the extra

        return RowsAsColumns(job.target, job.target_format, job.fields, job.components, job.advantages)
    return LineOutput(job.target) if job.target_format == "jsonl" else ArrayOutput(job.target)


def score_rows(
    job: Job, scorer: Scorer, rows: Iterator[Row], progress: Progress, watcher: Watcher | None = None
) -> Summary:
    """Score `rows` and write them in their order.

    Faulty rows are listed on standard error and written with their error. Raises OSError where the output cannot be
    written, DocumentError, and InvalidRequest where advantages were asked for and no group has two rewards.
    """
    summary = Summary()
    with row_output(job) as output:
        scored = _scored_pieces(job, scorer, rows, summary, progress, watcher)
        if not job.advantages:
            for _, _, written in scored:
                output.write(written)
            return summary
        with GroupedRows(beside(job.target)) as grouped:
            for rollouts, scores, written in scored:
                grouped.add(rollouts, scores.rewards, written)
            for written in grouped.rows(scorer.settings.advantage_ddof):
                output.write(written)
    return summary


def _scored_pieces(
    job: Job, scorer: Scorer, rows: Iterator[Row], summary: Summary, progress: Progress, watcher: Watcher | None
) -> Iterator[tuple[list[Rollout], Scores, list[bytes]]]:
    for piece in pieces(rows):
        rollouts = [read_rollout(row, job.fields, job.longest_line) for row in piece]
        scores = score_rollouts(scorer, rollouts)
        summary.add(scores)
        _report_faults(job, rollouts, summary, progress)
        if watcher is not None:
            watcher.add([rollout for rollout in rollouts if rollout.fault is None], scores)
        yield rollouts, scores, _written(rollouts, scores, job.components)
        progress.advance(len(piece), sum(row.size for row in piece))


def _written(rollouts: list[Rollout], scores: Scores, components: bool) -> list[bytes]:
    results = column_results(scores, components)
    return [row_with(rollout, next(results)) if rollout.fault is None else faulty_row(rollout) for rollout in rollouts]


def _report_faults(job: Job, rollouts: list[Rollout], summary: Summary, progress: Progress) -> None:
    for rollout in rollouts:
        if rollout.fault is not None:
            summary.faults[rollout.fault.reason] += 1
            where = rollout.place.within(job.source_name)
            progress.message(f"{where}: {rollout.fault.detail} ({rollout.fault.reason})")

"""Scores a file of rollouts piece by piece, keeping its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .formats import is_columnar
from .progress import Progress
from .rows.atomic_file import temp_dir_for
from .rows.grouped_rows import GroupedRows
from .rows.output import ArrayOutput, LineOutput, RowOutput, error_row, with_results
from .rows.piece_scoring import column_results, score_rollouts
from .rows.rows import Fields, Rollout, Row, pieces, read_rollout
from .summary import Summary

__all__ = [
    "Job",
    "Observer",
    "ScoredPiece",
    "report_faults",
    "result_lines",
    "row_output",
    "score_rows",
    "write_pieces",
]

ScoredPiece = tuple[Sequence[Rollout], np.ndarray, list[bytes]]
"""Rollouts, the rewards (float64) of those without a fault, and the output line of each rollout."""


class Job(NamedTuple):
    """What to read and to write, and in which formats (those of `formats`); "-" is a standard stream."""

    source: str
    target: str
    source_format: str = "jsonl"
    target_format: str = "jsonl"
    fields: Fields = Fields()
    components: bool = False
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


class Observer(Protocol):
    """Receives every scored row."""

    def add(self, rollouts: Sequence[Rollout], scores: Scores) -> None:
        """Add rows without a fault and their scores, in order."""


def row_output(job: Job) -> RowOutput:
    """Return the output for JSON rows in the format of the job."""
    if is_columnar(job.target_format):
        from .columns.from_rows import RowsAsColumns  # needs the extra

        return RowsAsColumns(job.target, job.target_format, job.fields, job.components, job.advantages)
    return LineOutput(job.target) if job.target_format == "jsonl" else ArrayOutput(job.target)


def score_rows(
    job: Job, scorer: Scorer, rows: Iterator[Row], progress: Progress, observer: Observer | None = None
) -> Summary:
    """Score `rows` and write them in their order.

    Rows with a fault are listed on standard error and written with their error. Raises OSError if the output cannot be
    written, DocumentError, and InvalidRequest if advantages are wanted and no group has two rewards.
    """
    summary = Summary()
    write_pieces(job, _score_pieces(job, scorer, rows, summary, progress, observer), scorer.settings.advantage_ddof)
    return summary


def write_pieces(job: Job, scored: Iterable[ScoredPiece], ddof: int) -> None:
    """Write scored pieces in order, with advantages if the job asks for them; raises as `score_rows` does."""
    with row_output(job) as output:
        if not job.advantages:
            for _, _, lines in scored:
                output.write(lines)
            return
        with GroupedRows(temp_dir_for(job.target)) as grouped:
            for rollouts, rewards, lines in scored:
                grouped.add(rollouts, rewards, lines)
            for lines in grouped.rows(ddof):
                output.write(lines)


def _score_pieces(
    job: Job, scorer: Scorer, rows: Iterator[Row], summary: Summary, progress: Progress, observer: Observer | None
) -> Iterator[ScoredPiece]:
    for piece in pieces(rows):
        rollouts = [read_rollout(row, job.fields, job.max_line_bytes) for row in piece]
        scores = score_rollouts(scorer, rollouts)
        summary.add(scores)
        report_faults(job, rollouts, summary.faults, progress)
        if observer is not None:
            observer.add([rollout for rollout in rollouts if rollout.fault is None], scores)
        yield rollouts, scores.rewards, result_lines(rollouts, column_results(scores, job.components))
        progress.advance(len(piece), sum(row.size for row in piece))


def result_lines(rollouts: Sequence[Rollout], results: Iterator[Mapping[str, Any]]) -> list[bytes]:
    """Return the output line of each rollout; `results` are those of the rollouts without a fault."""
    return [
        with_results(rollout, next(results)) if rollout.fault is None else error_row(rollout) for rollout in rollouts
    ]


def report_faults(job: Job, rollouts: Sequence[Rollout], counts: Counter[str], progress: Progress) -> None:
    """Count the faults by reason and list them on standard error."""
    for rollout in rollouts:
        if rollout.fault is not None:
            counts[rollout.fault.reason] += 1
            where = rollout.location.within(job.source_name)
            progress.message(f"{where}: {rollout.fault.detail} ({rollout.fault.reason})")

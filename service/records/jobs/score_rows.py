"""Files of rollouts, scored piece by piece, and requests in files."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...rewards.registry import SCORE, identity_of, reward_of
from ...rewards.scores import Scores
from ...rewards.scoring import score
from ...scoring.references import MAX_REFERENCE_BYTES
from ...terminal import Listing, Progress, say
from ...wire.json_codec import Envelope, RequestLimits, encode_reply, parse_envelope, read_batch
from ...wire.problems import Problem
from ..files.opening import JSON_WHITESPACE, SourceFile, is_columnar
from ..files.wrong_files import DocumentError
from ..output.complete_output import json_output
from ..output.output_file import Write, temp_dir_for, write_document
from ..rows.forms import unfolded
from ..rows.rows import (
    PIECE_BYTES,
    STEP_RESULTS,
    Fields,
    Location,
    Record,
    Rollout,
    error_row,
    numbered,
    pieces,
    rollout_of,
    with_results,
)
from .row_tasks import RowTasks
from .summary import GroupedRewards, ScoreSummary


class ScoreJob(NamedTuple):
    """A file to score: the source, the target and their formats; the target "-" is standard output."""

    source: SourceFile
    target: str
    target_format: str = "jsonl"
    fields: Fields = Fields()
    components: tuple[str, ...] = ()
    """Names of the components that the output has."""
    advantages: bool = False
    steps: bool = False
    append: bool = False
    """Whether lines are added to the target."""


Observe = Callable[[Sequence[Rollout], Any], None]
"""Receives rows of SCORE without a fault and their scores, in order, piece by piece."""


class ScoreTally:
    """Counts the rows of a file piece by piece, lists rows with a fault and shows rows of SCORE to an observer."""

    def __init__(self, source: SourceFile, tasks: RowTasks, progress: Progress, observe: Observe | None) -> None:
        self.summary = ScoreSummary()
        self._name, self._tasks, self._observe = source.name, tasks, observe
        self._listing = Listing(progress.message)
        self.summary.faults = self._listing.counts

    def add(self, scores: Scores, faulty: Iterable[Rollout], scored: Callable[[list[int]], Sequence[Rollout]]) -> None:
        """Add a piece; `scored` returns the rows of these numbers, which count rows without a fault."""
        self.summary.add(scores)
        report_faults(self._name, faulty, self._listing)
        if self._observe is not None:
            rows, scores = scores.of_reward(reward_of(SCORE))
            self._observe(scored(rows.tolist()), scores)

    def close(self) -> ScoreSummary:
        """Say how many rows are not listed, and return the counts."""
        self._listing.close()
        return self.summary


def score_rows(
    job: ScoreJob, tasks: RowTasks, rows: Iterable[Record], progress: Progress, observe: Observe | None = None
) -> ScoreSummary:
    """Score `rows` and write them in their order, with advantages if the job asks for them.

    Rows with a fault are listed on standard error and written with their error. Raises OSError if the output cannot be
    written, DocumentError, and InvalidRequest if advantages are wanted that `Scores` would refuse.

    Groups may be scattered, so rows with advantages are spooled to a temporary file until the last one is scored.
    """
    tally = ScoreTally(job.source, tasks, progress, observe)
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
            lines = [
                with_results(rollout, next(results)) if rollout.fault is None else error_row(rollout)
                for rollout in rollouts
            ]
            if spool is None:
                write(lines)
            else:
                spool.writelines(line + b"\n" for line in lines)
                grouped.add(
                    scores.rewards, (-1 if rollout.fault else numbered(numbers, rollout.group) for rollout in rollouts)
                )
            progress.advance(len(piece), sum(row.size for row in piece))
        summary = tally.close()
        if spool is not None:
            advantages = iter(grouped.advantages(tasks.settings.advantage_ddof).tolist())
            spool.seek(0)
            while spooled_lines := spool.readlines(PIECE_BYTES):
                write([_with_advantage(line[:-1], next(advantages)) for line in spooled_lines])
    return summary


def _read(job: ScoreJob, tasks: RowTasks, record: Record) -> Rollout:
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


def row_output(job: ScoreJob, identity: Mapping[str, str]) -> AbstractContextManager[Write]:
    """Return the output for JSON rows in the format of the job; an exception discards incomplete output.

    identity: `config_id` and `signature`, the metadata of columns.
    """
    if is_columnar(job.target_format):
        from ..output.batch_columns import result_fields  # needs the extra
        from ..output.rows_as_columns import rows_as_columns

        added = result_fields(job.components, job.advantages, job.steps)
        return rows_as_columns(job.target, job.target_format, job.fields, job.components, added, identity)
    return json_output(job.target, job.target_format, job.append)


def column_results(scores: Scores, components: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the results of each row: `reward`, `reason`, `components` if there are any, and steps if it has them."""
    results: dict[str, Iterable[Any]] = {"reward": scores.rewards.tolist(), "reason": map(str, scores.reasons)}
    if components:
        values = zip(*(scores.components[name].tolist() for name in components), strict=True)
        results["components"] = (dict(zip(components, row, strict=True)) for row in values)
    if scores.steps is not None and scores.alternative is not None:
        results |= zip(STEP_RESULTS, (scores.steps, scores.alternative.tolist()), strict=True)
    for row in zip(*results.values(), strict=True):
        yield dict(zip(results, row, strict=True))


def _with_advantage(row: bytes, advantage: float) -> bytes:
    """Return the row with its advantage; unchanged if that is NaN."""
    return row if math.isnan(advantage) else row[:-1] + b',"advantage":' + orjson.dumps(advantage) + b"}"


LIMITS = RequestLimits(2**62, 2**62, MAX_REFERENCE_BYTES)
"""Files have no limits, except for the size of a reference."""


def require_request(document: str) -> None:
    """Raise DocumentError unless a JSON document without an array of rows may be a request."""
    if not document.lstrip(JSON_WHITESPACE).startswith("{"):
        raise DocumentError("neither an array of rows nor a request")


def score_request(job: ScoreJob, tasks: RowTasks, document: str, observe: Observe | None = None) -> ScoreSummary | None:
    """Write the reply of the service (JSON) or a row for each response (other formats); return counts of the scores.

    For an invalid request, the errors are listed on standard error and all of them in the output; returns None.
    """
    require_request(document)
    try:
        envelope = parse_envelope(document.encode(), LIMITS)
    except Problem as problem:
        raise DocumentError(problem.issues[0].detail) from None
    flags = {"components": bool(job.components), "advantages": job.advantages, "steps": job.steps}
    add_includes(envelope, flags)
    try:
        if "configs" in envelope.values and job.target_format != "json":
            detail = "rows have the results of one configuration: write the reply as JSON (--output-format json)"
            raise InvalidRequest([Issue("configs", "needs_json", detail)])
        batch = read_batch(envelope, tasks.scorer, LIMITS)
        scores = score(batch)
    except (Problem, ScoringError) as error:
        write_issues(job, error.issues)
        return None
    summary, include = ScoreSummary(), envelope.values.get("include", ())
    summary.add(scores)
    rollouts = (
        rollouts_of(document, envelope.values.get("groups"), scores)
        if observe is not None or job.target_format != "json"
        else []
    )
    if observe is not None:
        rows, score_results = scores.of_reward(reward_of(SCORE))
        observe([rollouts[row] for row in rows.tolist()], score_results)
    if job.target_format == "json":
        write_document(job.target, encode_reply(batch, include, scores))
    else:
        components = tuple(scores.components) if "components" in include else ()
        job = job._replace(components=components, advantages=batch.advantages, steps=batch.steps)
        with row_output(job, identity_of(batch)) as write:
            write(scored_lines(job, rollouts, scores))
    return summary


def add_includes(envelope: Envelope, flags: dict[str, bool]) -> None:
    """Add the includes of the flags to the request's."""
    named = envelope.values.get("include", [])
    if isinstance(named, list):
        envelope.values["include"] = [*named, *(name for name, asked in flags.items() if asked and name not in named)]


def rollouts_of(document: str, groups: list[str | int] | None, scores: Scores) -> list[Rollout]:
    """Return the responses of a request as rows with what the request says of each; groups: the groups in the reply."""
    request = orjson.loads(document)
    references = [request["references"][number] for number in scores.reference_index.tolist()]
    columns = {"response": request["responses"], "reference": references}
    if isinstance(request.get("task"), list):
        columns["task"] = request["task"]
    if groups is not None:  # orjson writes integers of up to 64 bits
        columns["group"] = [group if isinstance(group, str) else orjson.Fragment(b"%d" % group) for group in groups]
    return [
        Rollout(
            Location("record", k + 1),
            orjson.dumps({name: column[k] for name, column in columns.items()}),
            response=request["responses"][k],
            reference=references[k],
            group=references[k] if groups is None else groups[k],
        )
        for k in range(len(scores))
    ]


def scored_lines(job: ScoreJob, rollouts: Sequence[Rollout], scores: Scores) -> Iterator[bytes]:
    """Yield a line for each response: what the request says of it, and its results."""
    advantages = scores.advantages().tolist() if job.advantages else []
    for k, (rollout, result) in enumerate(zip(rollouts, column_results(scores, job.components), strict=True)):
        yield with_results(rollout, {**result, "advantage": advantages[k]} if advantages else result)


def write_issues(job: ScoreJob, issues: Sequence[Issue]) -> None:
    """List issues on standard error and, if it is JSON, in the output."""
    listing = Listing(partial(say, err=True))
    for issue in issues:
        listing.add(f"{job.source.name}: {issue.path}: {issue.detail} ({issue.reason})", issue.reason, "value")
    listing.close()
    if is_columnar(job.target_format):
        return
    errors = [issue._asdict() for issue in issues]
    document = orjson.dumps({"errors": errors, "error_count": len(errors)})
    if job.target_format == "json":
        write_document(job.target, document)
        return
    with json_output(job.target, "jsonl", job.append) as write:
        write([document])

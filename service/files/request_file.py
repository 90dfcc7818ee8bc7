"""Scoring of a file that holds a request of `POST /v1/score`, with the reply of the service."""

from __future__ import annotations

from collections.abc import Sequence

import click
import orjson

from ...kernels.score import COMPONENTS
from ..errors import Issue, ScoringError
from ..http.wire.envelope import Envelope
from ..http.wire.json_codec import Batch, Limits, decode_score_request, encode, parse_envelope
from ..http.wire.problems import Problem
from ..http.wire.task_request import answer_here, names_other_task
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .formats import is_columnar
from .rows.output import line_output, with_results, write_document
from .rows.rows import JSON_WHITESPACE, DocumentError, Location, Rollout
from .score_rows import Job, Observe, column_results, row_output

__all__ = ["require_request", "score_request"]

LIMITS = Limits(2**62, 2**62, MAX_REFERENCE_BYTES, max_compared_bytes=2**62)
"""Files have no limits, except that of a reference."""


def require_request(document: str) -> None:
    """Raise DocumentError unless a JSON document without an array of rows may be a request."""
    if not document.lstrip(JSON_WHITESPACE).startswith("{"):
        raise DocumentError("neither an array of rows nor a request")


def score_request(job: Job, scorer: Scorer, document: str, observe: Observe | None = None) -> bool:
    """Write the reply of the service (JSON) or a row for each response (other formats); return whether that worked.

    For an invalid request, every validation error is listed on standard error and in the output.
    """
    require_request(document)
    try:
        envelope = parse_envelope(document.encode(), LIMITS)
    except Problem as problem:
        raise DocumentError(problem.issues[0].detail) from None
    add_includes(envelope, {"components": bool(job.components), "advantages": job.advantages})
    if names_other_task(envelope):
        return score_task_request(job, scorer, envelope)
    try:
        batch = decode_score_request(envelope, scorer, LIMITS)
        scores = batch.score()
        if observe is not None:
            observe(rollouts_of(document, batch), scores)
        if job.target_format == "json":
            write_document(job.target, encode(scores, batch.scorer.identity, batch.components, batch.advantages))
        else:
            write_rows(job, rollouts_of(document, batch), batch, scores)
    except ScoringError as error:
        write_issues(job, error.issues)
        return False
    return True


def score_task_request(job: Job, scorer: Scorer, envelope: Envelope) -> bool:
    """Write the JSON reply to a request that names tasks; return whether that worked."""
    if job.target_format != "json":
        raise click.UsageError(
            "the reply to a request for another task can only be written as JSON (--output-format json)"
        )
    try:
        write_document(job.target, answer_here(envelope, scorer, LIMITS).body)
    except Problem as problem:
        write_issues(job, problem.issues)
        return False
    return True


def add_includes(envelope: Envelope, wanted: dict[str, bool]) -> None:
    """Add the includes of the flags to those of the request."""
    named = envelope.values.get("include", [])
    if isinstance(named, list):
        envelope.values["include"] = [*named, *(name for name, asked in wanted.items() if asked and name not in named)]


def rollouts_of(document: str, batch: Batch) -> list[Rollout]:
    """Return the responses of a request as rows; those with the same reference are a group."""
    request = orjson.loads(document)
    references = [request["references"][number] for number in batch.reference_index.tolist()]
    return [
        Rollout(Location("record", k), b"", response=response, reference=reference, group=reference)
        for k, (response, reference) in enumerate(zip(request["responses"], references, strict=True))
    ]


def write_rows(job: Job, rollouts: list[Rollout], batch: Batch, scores: Scores) -> None:
    """Write a row for each response: the response, its reference and its results."""
    advantages = scores.advantages().tolist() if batch.advantages else []
    job = job._replace(components=COMPONENTS if batch.components else (), advantages=batch.advantages)
    with row_output(job, batch.scorer.identity) as write:
        lines = []
        for k, (rollout, result) in enumerate(zip(rollouts, column_results(scores, job.components), strict=True)):
            rollout.text = orjson.dumps({"response": rollout.response, "reference": rollout.reference})
            lines.append(with_results(rollout, {**result, "advantage": advantages[k]} if advantages else result))
        write(lines)


def write_issues(job: Job, issues: Sequence[Issue]) -> None:
    """List issues on standard error and, if it is JSON, in the output."""
    for issue in issues:
        click.echo(f"{job.source_name}: {issue.path}: {issue.detail} ({issue.reason})", err=True)
    if is_columnar(job.target_format):
        return
    errors = [issue._asdict() for issue in issues]
    document = orjson.dumps({"errors": errors, "error_count": len(errors)})
    if job.target_format == "json":
        write_document(job.target, document)
        return
    with line_output(job.target) as write:
        write([document])

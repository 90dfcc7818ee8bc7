"""A request document of `POST /v1/score` from a file, answered as the service answers it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click
import orjson

from ..errors import Issue, ScoringError
from ..http.wire.envelope import Envelope
from ..http.wire.json_codec import Batch, Limits, decode_score_request, encode, parse_envelope
from ..http.wire.problems import Problem
from ..http.wire.stage_times import StageTimes
from ..http.wire.task_request import answer_task, asks_for_another_task
from ..http.wire.validation import all_issues
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
from .formats import is_columnar
from .rows.output import LineOutput, row_with, write_document
from .rows.piece_scoring import column_results
from .rows.rows import JSON_SPACE, DocumentError, Place, Rollout
from .score_rows import Job, Watcher, row_output

__all__ = ["is_request", "score_request"]

LIMITS = Limits(2**62, 2**62, MAX_REFERENCE_BYTES, max_compared_bytes=2**62)
"""In a file, only references have a limit of their own: the one that they have everywhere."""


def is_request(document: str) -> bool:
    """Whether a JSON document is a request rather than an array of rows; raises DocumentError where it is neither."""
    first = document.lstrip(JSON_SPACE)[:1]
    if first not in ("[", "{"):
        raise DocumentError("neither an array of rows nor a request")
    return first == "{"


def score_request(job: Job, scorer: Scorer, document: str, watcher: Watcher | None = None) -> bool:
    """Write the reply of the service (JSON), or a row for each response (other formats); False where there is none.

    A request that cannot be scored is answered whole: every offending place on standard error and in the output.
    """
    try:
        envelope = parse_envelope(document.encode(), LIMITS)
    except Problem as problem:
        raise DocumentError(problem.issues[0].detail) from None
    include(envelope, {"components": job.components, "advantages": job.advantages})
    if asks_for_another_task(envelope):
        return score_task_request(job, document, envelope)
    try:
        batch = decode_score_request(envelope, scorer, LIMITS)
        scores = batch.score()
        if watcher is not None:
            watcher.add(rollouts_of(orjson.loads(document), batch), scores)
        if job.target_format == "json":
            write_document(job.target, encode(scores, batch, batch.scorer.config_id))
        else:
            write_rows(job, orjson.loads(document), batch, scores)
    except ScoringError as error:
        write_issues(job, all_issues(envelope, scorer, LIMITS) or error.issues)
        return False
    return True


def score_task_request(job: Job, document: str, envelope: Envelope) -> bool:
    """The same for a request that names another task: only the reply as it is, in JSON."""
    if job.target_format != "json":
        raise click.UsageError("the reply to a request for another task is written as JSON (--output-format json)")
    try:
        write_document(job.target, answer_task(document.encode(), envelope, LIMITS, StageTimes()))
    except Problem as problem:
        write_issues(job, problem.issues)
        return False
    return True


def include(envelope: Envelope, wanted: dict[str, bool]) -> None:
    """Add what the flags ask for to what the request itself includes."""
    named = envelope.values.get("include", [])
    if isinstance(named, list):
        envelope.values["include"] = [*named, *(name for name, asked in wanted.items() if asked and name not in named)]


def rollouts_of(request: dict[str, Any], batch: Batch) -> list[Rollout]:
    """The request's responses as rows; those to one reference are a group."""
    pairs = zip(request["responses"], batch.reference_index.tolist(), strict=True)
    references = request["references"]
    return [
        Rollout(Place("record", k), b"", response=response, reference=references[number], group=references[number])
        for k, (response, number) in enumerate(pairs)
    ]


def write_rows(job: Job, request: dict[str, Any], batch: Batch, scores: Scores) -> None:
    """A row for each response: the response, its reference and its results."""
    references = request["references"]
    advantages = scores.advantages().tolist() if batch.advantages else []
    pairs = zip(request["responses"], batch.reference_index.tolist(), strict=True)
    results = column_results(scores, batch.components)
    job = job._replace(components=batch.components, advantages=batch.advantages)

    def rows() -> Iterator[bytes]:
        for k, ((response, number), result) in enumerate(zip(pairs, results, strict=True)):
            text = orjson.dumps({"response": response, "reference": references[number]})
            gained = {**result, "advantage": advantages[k]} if advantages else result
            yield row_with(Rollout(Place("record", k), text), gained)

    with row_output(job) as output:
        output.write(rows())


def write_issues(job: Job, issues: Sequence[Issue]) -> None:
    """Every offending place: a line each on standard error, and all of them in the output, if that is JSON."""
    for issue in issues:
        click.echo(f"{job.source_name}: {issue.path}: {issue.detail} ({issue.reason})", err=True)
    if is_columnar(job.target_format):
        return
    errors = [issue._asdict() for issue in issues]
    document = orjson.dumps({"errors": errors, "error_count": len(errors)})
    if job.target_format == "json":
        write_document(job.target, document)
        return
    with LineOutput(job.target) as output:
        output.write([document])

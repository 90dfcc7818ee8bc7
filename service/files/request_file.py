"""Scoring of a file that holds a request of `POST /v1/score`, with the reply of the service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import orjson

from ..errors import InvalidRequest, Issue, ScoringError
from ..http.wire.envelope import Envelope
from ..http.wire.json_codec import Limits, encode_reply, parse_envelope, read_batch
from ..http.wire.problems import Problem
from ..records.files import JSON_WHITESPACE, is_columnar
from ..records.rows import Location, Rollout, with_results
from ..records.wrong_files import DocumentError
from ..rewards.registry import identity_of
from ..rewards.scorer import score
from ..rewards.scores import Scores
from ..scoring.references import MAX_REFERENCE_BYTES
from ..terminal import Listing, say
from .complete_output import json_output
from .output_file import write_document
from .row_tasks import RowTasks
from .score_rows import Job, Observe, column_results, row_output
from .summary import Summary

__all__ = ["require_request", "score_request"]

LIMITS = Limits(2**62, 2**62, MAX_REFERENCE_BYTES, max_compared_bytes=2**62)
"""Files have no limits, except that of a reference."""


def require_request(document: str) -> None:
    """Raise DocumentError unless a JSON document without an array of rows may be a request."""
    if not document.lstrip(JSON_WHITESPACE).startswith("{"):
        raise DocumentError("neither an array of rows nor a request")


def score_request(job: Job, tasks: RowTasks, document: str, observe: Observe | None = None) -> Summary | None:
    """Write the reply of the service (JSON) or a row for each response (other formats); return counts of the scores.

    For an invalid request, the errors are listed on standard error and all of them in the output; returns None.
    """
    require_request(document)
    try:
        envelope = parse_envelope(document.encode(), LIMITS)
    except Problem as problem:
        raise DocumentError(problem.issues[0].detail) from None
    add_includes(envelope, {"components": bool(job.components), "advantages": job.advantages})
    try:
        if "configs" in envelope.values and job.target_format != "json":
            detail = "rows have the results of one configuration: write the reply as JSON (--output-format json)"
            raise InvalidRequest([Issue("configs", "needs_json", detail)])
        batch = read_batch(envelope, tasks.scorer, LIMITS)
        scores = score(batch)
    except (Problem, ScoringError) as error:
        write_issues(job, error.issues)
        return None
    summary, include = Summary(), envelope.values.get("include", ())
    summary.add(scores)
    rollouts = (
        rollouts_of(document, envelope.values.get("groups"), scores)
        if observe is not None or job.target_format != "json"
        else []
    )
    if observe is not None:
        rows, own = tasks.of_score(scores)
        observe([rollouts[row] for row in rows.tolist()], own)
    if job.target_format == "json":
        write_document(job.target, encode_reply(batch, scores, include))
    else:
        components = tuple(scores.components) if "components" in include else ()
        job = job._replace(components=components, advantages=batch.advantages)
        with row_output(job, identity_of(batch)) as write:
            write(scored_lines(job, rollouts, scores))
    return summary


def add_includes(envelope: Envelope, wanted: dict[str, bool]) -> None:
    """Add the includes of the flags to those of the request."""
    named = envelope.values.get("include", [])
    if isinstance(named, list):
        envelope.values["include"] = [*named, *(name for name, asked in wanted.items() if asked and name not in named)]


def rollouts_of(document: str, groups: list[str | int] | None, scores: Scores) -> list[Rollout]:
    """Return the responses of a request as rows with what the request says of each; groups are those of the reply."""
    request = orjson.loads(document)
    references = [request["references"][number] for number in scores.reference_index.tolist()]
    columns = {"response": request["responses"], "reference": references}
    if isinstance(request.get("task"), list):
        columns["task"] = request["task"]
    if groups is not None:  # orjson writes integers of up to 64 bits
        columns["group"] = [group if isinstance(group, str) else orjson.Fragment(b"%d" % group) for group in groups]
    return [
        Rollout(
            Location("record", k),
            orjson.dumps({name: column[k] for name, column in columns.items()}),
            response=request["responses"][k],
            reference=references[k],
            group=references[k] if groups is None else groups[k],
        )
        for k in range(len(scores))
    ]


def scored_lines(job: Job, rollouts: Sequence[Rollout], scores: Scores) -> Iterator[bytes]:
    """Yield a line for each response: what the request says of it, and its results."""
    advantages = scores.advantages().tolist() if job.advantages else []
    for k, (rollout, result) in enumerate(zip(rollouts, column_results(scores, job.components), strict=True)):
        yield with_results(rollout, {**result, "advantage": advantages[k]} if advantages else result)


def write_issues(job: Job, issues: Sequence[Issue]) -> None:
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
    with json_output(job.target, "jsonl") as write:
        write([document])

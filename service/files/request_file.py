"""Scoring of a file that holds a request of `POST /v1/score`, with the reply of the service."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import orjson

from ..errors import InvalidRequest, Issue, ScoringError
from ..http.wire.envelope import Envelope
from ..http.wire.json_codec import Limits, decode_score_request, parse_envelope
from ..http.wire.problems import Problem
from ..http.wire.task_request import answer_here, names_other_task
from ..records.files import JSON_WHITESPACE, is_columnar
from ..records.rows import Location, Rollout, with_results
from ..records.wrong_files import DocumentError
from ..scoring.references import MAX_REFERENCE_BYTES
from ..scoring.scorer import Scorer
from ..scoring.scores import Scores
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
        reply, scores = reply_to(envelope, tasks.scorer)
    except (Problem, ScoringError) as error:
        write_issues(job, error.issues)
        return None
    summary = Summary()
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
        write_document(job.target, reply)
    else:
        write_rows(job, rollouts, scores, orjson.loads(reply))
    return summary


def reply_to(envelope: Envelope, scorer: Scorer) -> tuple[bytes, Scores]:
    """Return the reply of the service and the scores in it; raise Problem or ScoringError with every error."""
    if names_other_task(envelope):
        return answer_here(envelope, scorer, LIMITS)
    batch = decode_score_request(envelope, scorer, LIMITS)
    scores = batch.score()
    return batch.encode(scores), scores[0]


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


def write_rows(job: Job, rollouts: list[Rollout], scores: Scores, reply: dict[str, Any]) -> None:
    """Write a row for each response: what the request says of it, and its results, with the columns of the reply."""
    advantages = reply.get("advantages", [])
    components = tuple(reply.get("components", ()))
    job = job._replace(components=components, advantages="advantages" in reply)
    with row_output(job, {name: reply[name] for name in ("config_id", "signature")}) as write:
        results = column_results(scores, components)
        write(
            with_results(rollout, {**result, "advantage": advantages[k]} if advantages else result)
            for k, (rollout, result) in enumerate(zip(rollouts, results, strict=True))
        )


def write_issues(job: Job, issues: Sequence[Issue]) -> None:
    """List issues on standard error and, if it is JSON, in the output."""
    listing = Listing(partial(say, err=True))
    for issue in issues:
        listing.add(f"{job.source_name}: {issue.path}: {issue.detail} ({issue.reason})", issue.reason, "value")
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

"""POST /v1/explain."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from ...errors import InvalidRequest, InvalidSetting, Issue, ScoringError
from ...explain.derivation import MAX_BYTES
from ...explain.explanation import explain as explain_response
from ...explain.explanation import issues_of_reference
from ...explain.schema import MAX_SUGGESTED, MAX_SUGGESTIONS
from ...scoring.scorer import Scorer
from ..request.exchange import Exchange
from ..request.intake import Body
from ..wire.json_codec import Limits
from ..wire.problems import refusal
from ..wire.stage_times import StageTimes
from .evaluate import json_document

__all__ = ["MAX_BODY_BYTES", "answer", "explain"]

MAX_BODY_BYTES = 8 * MAX_BYTES
"""Room for a response and a reference of the largest size in JSON, where a byte may take six."""

FIELDS: dict[str, tuple[tuple[type[Any], ...], str]] = {
    "response": ((str,), "must be a string"),
    "reference": ((str, dict), "must be a string or an object with steps"),
    "config": ((dict,), "must be an object"),
    "suggestions": ((int,), f"must be an integer from 0 to {MAX_SUGGESTIONS}"),
}
REQUIRED = ("response", "reference")


class Request(NamedTuple):
    """What is to be explained, and by which scorer."""

    response: str
    reference: Any
    scorer: Scorer
    suggestions: int


async def explain(exchange: Exchange) -> None:
    """Explain one reward: every number with its origin, and what would change it most."""
    service = exchange.service
    job = partial(answer, exchange.taken, service.scorer, service.limits, exchange.times)
    await exchange.reply(await service.explainers.run(job, exchange))


def answer(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> bytes:
    """The whole way from a request's bytes to its reply's; raises Problem."""
    started = perf_counter()
    document = json_document(body.plain(min(limits.max_body_bytes, MAX_BODY_BYTES)))
    try:
        request = read(document, scorer, limits)
        decoded = perf_counter()
        explanation = explain_response(
            request.scorer, request.response, request.reference, request.suggestions, limits.max_reference_bytes
        )
    except ScoringError as error:
        raise refusal(list(error.issues)) from None
    explained = perf_counter()
    reply = explanation.model_dump_json().encode()
    times.decode, times.score, times.encode = decoded - started, explained - decoded, perf_counter() - explained
    return reply


def read(document: Any, scorer: Scorer, limits: Limits) -> Request:
    """The request of a document; raises InvalidRequest naming every offending place."""
    if not isinstance(document, dict):
        raise InvalidRequest([Issue("body", "wrong_type", "must be an object")])
    issues = [Issue(name, "missing_field", "this field is required") for name in REQUIRED if name not in document]
    issues += [Issue(n, "unknown_field", "there is no field of this name") for n in document if n not in FIELDS]
    issues += [
        Issue(name, "wrong_type", detail)
        for name, (kinds, detail) in FIELDS.items()
        if name in document and type(document[name]) not in kinds
    ]
    wrong = {issue.path for issue in issues}
    suggestions = document.get("suggestions", MAX_SUGGESTED)
    if "suggestions" not in wrong and not 0 <= suggestions <= MAX_SUGGESTIONS:
        issues.append(Issue("suggestions", "out_of_range", FIELDS["suggestions"][1]))
    if "config" not in wrong:
        try:
            scorer = scorer.with_overrides(document.get("config", {}))
        except InvalidSetting as error:
            issues += error.issues
    if "reference" not in wrong:
        issues += issues_of_reference(document["reference"], scorer.settings.max_steps, limits.max_reference_bytes)
    if issues:
        raise InvalidRequest(issues)
    return Request(document["response"], document["reference"], scorer, suggestions)

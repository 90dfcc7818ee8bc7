"""POST /v1/explain."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from ...errors import InvalidRequest, InvalidSetting, ScoringError
from ...explain.case import MAX_BYTES, issues_of_reference
from ...explain.explanation import explain as explain_response
from ...explain.schema import MAX_SUGGESTED, ExplainRequest
from ...scoring.scorer import Scorer
from ..request.exchange import Exchange
from ..request.paths import Paths
from ..request.worker_threads import WorkerThreads
from ..wire.compression import Body
from ..wire.json_codec import Limits, json_document
from ..wire.problems import invalid_request
from ..wire.stage_times import StageTimes
from ..wire.validation import field_issues

__all__ = ["MAX_BODY_BYTES", "ExplainEndpoint", "answer"]

MAX_BODY_BYTES = 8 * MAX_BYTES
"""Room for a response and a reference of maximum size in JSON, where a byte may take six."""


class Request(NamedTuple):
    """A decoded request."""

    response: str
    reference: Any
    scorer: Scorer
    suggestions: int


class ExplainEndpoint:
    """Explains single rewards on separate threads."""

    def __init__(self, paths: Paths, workers: WorkerThreads) -> None:
        self._paths = paths
        self._workers = workers

    async def explain(self, exchange: Exchange) -> None:
        """Explain one reward: how each number was derived, and which edits would raise it."""
        job = partial(answer, exchange.request_body, self._paths.scorer, self._paths.limits, exchange.times)
        await exchange.reply(await self._workers.run(job, exchange))


def answer(body: Body, scorer: Scorer, limits: Limits, times: StageTimes) -> bytes:
    """Return the bytes of the reply; raise Problem."""
    times.start()
    document = json_document(body.plain(min(limits.max_body_bytes, MAX_BODY_BYTES)))
    try:
        request = decode_explain_request(document, scorer, limits)
        times.decoded()
        explanation = explain_response(
            request.scorer, request.response, request.reference, request.suggestions, limits.max_reference_bytes
        )
    except ScoringError as error:
        raise invalid_request(list(error.issues)) from None
    times.scored()
    reply = explanation.model_dump_json().encode()
    times.encoded()
    return reply


def decode_explain_request(document: Any, scorer: Scorer, limits: Limits) -> Request:
    """Return the request of a document; raise InvalidRequest with every error."""
    issues = field_issues(ExplainRequest, document)
    wrong = {issue.path for issue in issues}
    if "config" not in wrong:
        try:
            scorer = scorer.with_overrides(document.get("config", {}))
        except InvalidSetting as error:
            issues += error.issues
    if "reference" not in wrong:
        issues += issues_of_reference(document["reference"], scorer.settings.max_steps, limits.max_reference_bytes)
    if issues:
        raise InvalidRequest(issues)
    suggestions = document.get("suggestions", MAX_SUGGESTED)
    return Request(document["response"], document["reference"], scorer, suggestions)

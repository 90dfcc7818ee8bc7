"""Evaluations and explanations, which run in jobs' processes."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...explain.case import MAX_BYTES, read_texts
from ...explain.explanation import explain as explain_response
from ...explain.schema import MAX_SUGGESTED, ExplainRequest, shortened
from ...rewards.registry import SCORE
from ...rewards.scorer import Scorer
from ...settings import ScoreSettings
from ...tasks.evaluation import evaluate_checked, record_issues, task_named
from ...tasks.task import Task
from ...wire.contract import EvaluateRequest
from ...wire.json_codec import RequestLimits, field_issues, issues_of, json_document
from ...wire.media_types import decompress
from ...wire.problems import Problem, invalid_request
from ...wire.reply_bounds import check_length, longest_reply, reply_too_long
from ...wire.stage_times import StageTimes
from ..request.exchange import Exchange
from ..request.jobs import JobCall
from ..request.paths import Paths
from ..request.processes import Processes


def evaluate_endpoint(limits: RequestLimits, processes: Processes) -> Callable[[Exchange], Awaitable[None]]:
    async def evaluate(exchange: Exchange) -> None:
        """Evaluate records by the metrics of a task; return values per record, aggregates, and aggregates of groups."""
        await processes.answer("evaluate", exchange, limits)

    return evaluate


def evaluate_answer(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    times.start()
    limits, deadline = call.limits, call.deadline
    text = decompress(body, call.encoding.encode(), limits.max_body_bytes)
    document, request_bytes = json_document(text), len(text)
    del text  # its objects take the memory that it is allowed
    try:
        task, records, options = decode_evaluate_request(document, limits)
        times.decoded()
        result = evaluate_checked(task, records, options, lambda _done: deadline.check(), remedies=False)
        times.scored()
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    reply = orjson.dumps(result.document(), option=orjson.OPT_SERIALIZE_NUMPY)
    times.encoded()
    return check_length(reply, request_bytes, limits)


def decode_evaluate_request(document: Any, limits: RequestLimits) -> tuple[Task, list[dict[str, Any]], Any]:
    """Return task, records and checked options; raise InvalidRequest with every error, and Problem."""
    records = document.get("records") if type(document) is dict else None
    if type(records) is list and len(records) > limits.max_responses:
        issue = Issue("records", "too_many", f"more than {limits.max_responses} elements")
        raise Problem("too-large", f"A request may have {limits.max_responses} records.", [issue])
    issues = field_issues(EvaluateRequest, document)
    wrong = {issue.path for issue in issues}
    task, options = None, None
    if "task" not in wrong:
        task, task_issues = issues_of(task_named, document.get("task", "score"))
        issues += task_issues
    if task is not None:
        raw_options = document.get("options", {}) if "options" not in wrong else {}
        options, option_issues = issues_of(task.checked, raw_options)
        issues += task.local_issues(raw_options) + option_issues
    if task is not None and type(records) is list:
        issues += record_issues(task, records)
    if issues or task is None or type(records) is not list:
        raise InvalidRequest(issues)
    return task, records, options


MAX_BODY_BYTES = 8 * MAX_BYTES
"""Room for a response and a reference of maximum size in JSON, where a byte may take six."""

MAX_SCORERS = 4
OTHER_TASK = f"must be {SCORE}: rewards of other tasks are not explained; POST /v1/score gives their components"


def explain_endpoint(paths: Paths, processes: Processes) -> Callable[[Exchange], Awaitable[None]]:
    async def explain(exchange: Exchange) -> None:
        """Explain one reward: how each number was derived, and which edits would raise it."""
        settings = paths.scorer.settings.model_dump(mode="json")
        await processes.answer("explain", exchange, paths.limits, settings=settings)

    return explain


def explain_answer(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    times.start()
    limits = call.limits
    text = decompress(body, call.encoding.encode(), min(limits.max_body_bytes, MAX_BODY_BYTES))
    document = json_document(text)
    scorer = scorer_of(json.dumps(call.arguments["settings"]))
    try:
        scorer = decode_explain_request(document, scorer, limits)
        times.decoded()
        suggestions = document.get("suggestions", MAX_SUGGESTED)
        texts = document["response"], document["reference"]
        explanation = explain_response(scorer, *texts, suggestions, limits.max_reference_bytes)
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    times.scored()
    reply = shortened(explanation, longest_reply(len(text), limits))
    if reply is None:
        raise reply_too_long("an explanation of many steps", len(text), limits)
    times.encoded()
    return reply


@lru_cache(MAX_SCORERS)
def scorer_of(settings: str) -> Scorer:
    return Scorer(ScoreSettings.model_validate_json(settings), threads=1)


def decode_explain_request(document: Any, scorer: Scorer, limits: RequestLimits) -> Scorer:
    issues = field_issues(ExplainRequest, document)
    wrong = {issue.path for issue in issues}
    if "task" not in wrong and document.get("task", SCORE) != SCORE:  # config and reference belong to that task
        raise InvalidRequest([*issues, Issue("task", "unknown_task", OTHER_TASK)])
    if "config" not in wrong:
        overridden, setting_issues = issues_of(scorer.with_overrides, document.get("config", {}))
        scorer = overridden or scorer
        issues += setting_issues
    if "reference" not in wrong:
        issues += issues_of(read_texts, document["reference"], scorer.settings, limits.max_reference_bytes)[1]
    if issues:
        raise InvalidRequest(issues)
    return scorer

"""POST /v1/evaluate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...evaluate.evaluation import evaluate_checked, record_issues, task_named
from ...evaluate.task import Task
from ..request.exchange import Exchange
from ..request.jobs import JobCall
from ..request.processes import Processes
from ..wire.compression import decompress
from ..wire.contract import EvaluateRequest
from ..wire.json_codec import Limits, json_document
from ..wire.problems import Problem, invalid_request
from ..wire.stage_times import StageTimes
from ..wire.validation import field_issues, issues_of

__all__ = ["answer", "evaluate_endpoint"]


def evaluate_endpoint(limits: Limits, processes: Processes) -> Callable[[Exchange], Awaitable[None]]:
    async def evaluate(exchange: Exchange) -> None:
        """Evaluate records by the metrics of a task; return values per record, aggregates, and aggregates of groups."""
        await processes.answer("evaluate", exchange, limits)

    return evaluate


def answer(body: bytes, call: JobCall, times: StageTimes) -> bytes:
    times.start()
    limits, deadline = call.limits, call.deadline
    document = json_document(decompress(body, call.encoding.encode(), limits.max_body_bytes))
    try:
        task, records, options = decode_evaluate_request(document, limits)
        times.decoded()
        result = evaluate_checked(task, records, options, lambda _done: deadline.check(), remedies=False)
        times.scored()
    except ScoringError as error:
        raise invalid_request(error.issues) from None
    reply = orjson.dumps(result.document(), option=orjson.OPT_SERIALIZE_NUMPY)
    times.encoded()
    return reply


def decode_evaluate_request(document: Any, limits: Limits) -> tuple[Task, list[dict[str, Any]], Any]:
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

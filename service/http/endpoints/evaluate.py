"""POST /v1/evaluate."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any

import orjson

from ...errors import InvalidRequest, Issue, ScoringError
from ...evaluate.evaluation import evaluate_checked, record_issues
from ...evaluate.registry import task_named
from ...evaluate.task import Task
from ..request.body import decompress
from ..request.deadline import Deadline
from ..request.exchange import Exchange
from ..wire.json_codec import Limits, not_json
from ..wire.problems import Problem, refusal
from ..wire.stage_times import StageTimes

__all__ = ["answer", "evaluate", "json_document"]

FIELDS: dict[str, tuple[type[Any], str]] = {
    "task": (str, "must be a string"),
    "records": (list, "must be an array"),
    "options": (dict, "must be an object"),
}

BYTES_A_CONTAINER = 8
"""Bytes of a body for each of its arrays and objects, at least and on average: as Python objects, empty ones would take
some thirty times their text. Records have one in a hundred bytes.
"""
FEW_CONTAINERS = 4_096


async def evaluate(exchange: Exchange) -> None:
    """Evaluate records by the metrics of a task: each record's values, their aggregates, and those of groups."""
    service, body = exchange.service, exchange.taken
    job = partial(answer, body.data, body.encoding, service.limits, exchange.deadline)
    await exchange.reply(await service.evaluators.run(job, exchange))


def answer(body: bytes | bytearray, encoding: bytes, limits: Limits, deadline: Deadline, times: StageTimes) -> bytes:
    """The whole way from a request's bytes to its reply's; raises Problem, `deadline` too where it takes too long."""
    started = perf_counter()
    request = json_document(decompress(body, encoding, limits.max_body_bytes))
    try:
        task, records, options = read(request, limits)
        decoded = perf_counter()
        result = evaluate_checked(task, records, options, lambda _done: deadline.check())
        evaluated = perf_counter()
    except ScoringError as error:
        raise refusal(error.issues) from None
    reply = orjson.dumps(result.document(), option=orjson.OPT_SERIALIZE_NUMPY)
    times.decode, times.score, times.encode = decoded - started, evaluated - decoded, perf_counter() - evaluated
    return reply


def json_document(body: bytes | bytearray) -> Any:
    """The body as a Python value; raises Problem `not-json`, and `too-large` for what would grow out of proportion."""
    containers = body.count(b"[") + body.count(b"{")
    if containers > FEW_CONTAINERS + len(body) // BYTES_A_CONTAINER:
        issue = Issue("body", "too_many", f"more than an array or object for {BYTES_A_CONTAINER} bytes")
        raise Problem("too-large", "The body has too many arrays and objects for its length.", [issue])
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise not_json(body) from None


def read(request: Any, limits: Limits) -> tuple[Task, list[dict[str, Any]], Any]:
    """Task, records and checked options of a request; raises InvalidRequest naming every offender, and Problem."""
    if not isinstance(request, dict):
        raise InvalidRequest([Issue("body", "wrong_type", "must be an object")])
    issues = [
        Issue(str(name), "unknown_field", "there is no field of this name") for name in request if name not in FIELDS
    ]
    for name, (kind, detail) in FIELDS.items():
        if name in request and not isinstance(request[name], kind):
            issues.append(Issue(name, "wrong_type", detail))
    named = {issue.path for issue in issues}
    records = request.get("records") if "records" not in named else []
    if records is None:
        issues.append(Issue("records", "missing_field", "this field is required"))
    elif len(records) > limits.max_responses:
        issue = Issue("records", "too_many", f"more than {limits.max_responses} elements")
        raise Problem("too-large", f"A request may have {limits.max_responses} records.", [issue])
    task, options = None, None
    if "task" not in named:
        task, options, found = read_options(request.get("task", "score"), request.get("options"), "options" in named)
        issues += found
    if task is not None and records:
        issues += record_issues(task, records)
    if issues or task is None:
        raise InvalidRequest(issues)
    return task, records or [], options


def read_options(name: str, given: Any, broken: bool) -> tuple[Task | None, Any, list[Issue]]:
    """The task, its options, and what is wrong with either."""
    try:
        task = task_named(name)
    except InvalidRequest as error:
        return None, None, list(error.issues)
    options = {} if broken or given is None else given
    issues = task.local_issues(options)
    try:
        return task, task.checked(options), issues
    except InvalidRequest as error:
        return task, None, issues + list(error.issues)

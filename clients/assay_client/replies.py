"""Decodes replies into checked columns, or into the errors that they report."""

from __future__ import annotations

import sys
from math import isfinite
from typing import Any, NamedTuple

from .errors import AssayError, BadReply, InvalidRequest, Issue, ServiceError, TooLarge, Unauthorized, invalid
from .json_text import loads
from .requests import ScoreRequest
from .results import Scores

__all__ = ["Reply", "error_of", "read_document", "read_scores"]

MAX_FLOAT = sys.float_info.max

MAX_DETAIL = 500
"""Characters of an error's detail that a message repeats."""


class Reply(NamedTuple):
    """A complete HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")


def read_scores(reply: Reply, request: ScoreRequest) -> Scores:
    """Return the scores of a reply; raise the error it reports, or BadReply if a column is invalid."""
    document = read_document(reply, request)
    n = request.responses
    components = advantages = None
    try:
        reasons = read_column(document, "reasons", n)
        if not all(isinstance(reason, str) for reason in reasons):
            raise ValueError("`reasons` has an entry that is not a string")
        config_id = document.get("config_id")
        if not isinstance(config_id, str):
            raise ValueError("`config_id` is missing")
        signature = document.get("signature", "")
        if not isinstance(signature, str):
            raise ValueError("`signature` is not a string")
        if "components" in request.include:
            columns = document.get("components")
            if not isinstance(columns, dict) or not set(request.components) <= columns.keys():
                raise ValueError("`components` is incomplete")
            components = {name: read_numbers(columns, name, n) for name in columns}
        if "advantages" in request.include:
            advantages = read_numbers(document, "advantages", n)
        rewards = read_numbers(document, "rewards", n)
    except ValueError as error:
        raise bad_reply(str(error), reply) from None
    return Scores(rewards, list(reasons), components, advantages, config_id, reply.request_id, signature, request.tasks)


def read_document(reply: Reply, request: ScoreRequest | None = None) -> dict[str, Any]:
    """Return the JSON object of a reply with status 200; raise the error that any other reply reports."""
    if reply.status != 200:
        raise error_of(reply, request)
    try:
        document = loads(reply.body)
    except ValueError:
        raise bad_reply("it is not JSON", reply) from None
    if not isinstance(document, dict):
        raise bad_reply("it is not an object", reply)
    return document


def read_column(document: dict[str, Any], name: str, n: int) -> list[Any]:
    values = document.get(name)
    if not isinstance(values, list):
        raise ValueError(f"`{name}` is missing")
    if len(values) != n:
        raise ValueError(f"`{name}` has {len(values)} entries for {n} responses")
    return values


def read_numbers(document: dict[str, Any], name: str, n: int) -> list[float]:
    values = read_column(document, name, n)
    if set(map(type, values)) <= {float} and all(map(isfinite, values)):
        return values  # fast path: columns are long and nearly always valid
    for k, value in enumerate(values):
        if type(value) not in (float, int) or not abs(value) <= MAX_FLOAT:
            raise ValueError(f"`{name}[{k}]` is not a finite number")
    return [float(value) for value in values]


def bad_reply(what: str, reply: Reply) -> BadReply:
    return BadReply(f"invalid reply: {what}", status=reply.status, request_id=reply.request_id)


def error_of(reply: Reply, request: ScoreRequest | None = None) -> AssayError:
    """Return the error that a reply with a status other than 200 reports in its problem document."""
    document = problem_document(reply)
    issues = issues_of(document)
    if request is not None:
        issues = request.in_caller_terms(issues)
    detail = str(document.get("detail") or document.get("title") or foreign_detail(reply))[:MAX_DETAIL]
    message = f"HTTP {reply.status}: {detail}"
    origin: dict[str, Any] = {"status": reply.status, "request_id": reply.request_id}
    if reply.status in (401, 403):
        return Unauthorized(message, **origin)
    if reply.status == 413:
        return TooLarge(message, issues=issues, **origin)
    if 400 <= reply.status < 500:
        return invalid(issues, **origin) if issues else InvalidRequest(message, **origin)
    if reply.status >= 500:
        return ServiceError(message, **origin)
    return BadReply(f"HTTP {reply.status} is not a reply of an Assay service", **origin)


def foreign_detail(reply: Reply) -> str:
    """Return the detail of an error that is not a problem document."""
    if reply.status == 400 and b"HTTPS" in reply.body:  # as nginx, Apache and Go say
        return "the port speaks TLS: use https:// instead of http://"
    return "no details"


def problem_document(reply: Reply) -> dict[str, Any]:
    """Return the problem document (RFC 9457); empty if the reply has none, such as that of a proxy."""
    try:
        document = loads(reply.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def issues_of(document: dict[str, Any]) -> list[Issue]:
    errors = document.get("errors")
    entries = [entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else []
    return [Issue(*(str(entry.get(name)) for name in ("path", "reason", "detail"))) for entry in entries]

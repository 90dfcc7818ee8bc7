"""A reply's status and bytes to checked columns, or to the error that they mean."""

from __future__ import annotations

import sys
from math import isfinite
from typing import Any, NamedTuple

from .errors import AssayError, BadReply, InvalidRequest, Issue, ServiceError, TooLarge, Unauthorized, invalid
from .json_text import loads
from .requests import ScoreRequest
from .results import COMPONENTS, Scores

__all__ = ["Reply", "error_of", "read_document", "read_scores"]

MAX_FLOAT = sys.float_info.max

MAX_DETAIL = 500
"""Characters of a foreign error's sentence that are repeated."""


class Reply(NamedTuple):
    """A whole HTTP response; the names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")


def read_scores(reply: Reply, request: ScoreRequest) -> Scores:
    """Raises the error that the reply stands for, or BadReply where a column is missing, short or not finite."""
    document = read_document(reply, request)
    n = request.responses
    reasons = column(document, "reasons", n, reply)
    if not all(isinstance(reason, str) for reason in reasons):
        raise bad("`reasons` holds something else than strings", reply)
    config_id = document.get("config_id")
    if not isinstance(config_id, str):
        raise bad("`config_id` is missing", reply)
    components = advantages = None
    if "components" in request.include:
        given = document.get("components")
        if not isinstance(given, dict) or not set(COMPONENTS) <= given.keys():
            raise bad("`components` is incomplete", reply)
        components = {name: numbers(given, name, n, reply) for name in given}
    if "advantages" in request.include:
        advantages = numbers(document, "advantages", n, reply)
    rewards = numbers(document, "rewards", n, reply)
    return Scores(rewards, list(reasons), components, advantages, config_id, reply.request_id)


def read_document(reply: Reply, request: ScoreRequest | None = None) -> dict[str, Any]:
    """The JSON object of a reply of status 200; raises the error that any other reply stands for."""
    if reply.status != 200:
        raise error_of(reply, request)
    try:
        document = loads(reply.body)
    except ValueError:
        raise bad("it is not JSON", reply) from None
    if not isinstance(document, dict):
        raise bad("it is not an object", reply)
    return document


def column(document: dict[str, Any], name: str, n: int, reply: Reply) -> list[Any]:
    values = document.get(name)
    if not isinstance(values, list):
        raise bad(f"`{name}` is missing", reply)
    if len(values) != n:
        raise bad(f"`{name}` has {len(values)} entries for {n} responses", reply)
    return values


def numbers(document: dict[str, Any], name: str, n: int, reply: Reply) -> list[float]:
    values = column(document, name, n, reply)
    if set(map(type, values)) <= {float} and all(map(isfinite, values)):
        return values  # nearly always, and columns are long
    for k, value in enumerate(values):
        if type(value) not in (float, int) or not abs(value) <= MAX_FLOAT:
            raise bad(f"`{name}[{k}]` is not a finite number", reply)
    return [float(value) for value in values]


def bad(what: str, reply: Reply) -> BadReply:
    message = f"the reply is not one of /v1/score: {what}"
    return BadReply(message, status=reply.status, request_id=reply.request_id)


def error_of(reply: Reply, request: ScoreRequest | None = None) -> AssayError:
    """The error that a reply of another status than 200 stands for, read from its problem document."""
    document = problem_document(reply)
    issues = issues_of(document)
    if request is not None:
        issues = request.in_callers_words(issues)
    detail = str(document.get("detail") or document.get("title") or foreign_detail(reply))[:MAX_DETAIL]
    message = f"HTTP {reply.status}: {detail}"
    where: dict[str, Any] = {"status": reply.status, "request_id": reply.request_id}
    if reply.status in (401, 403):
        return Unauthorized(message, **where)
    if reply.status == 413:
        return TooLarge(message, issues=issues, **where)
    if 400 <= reply.status < 500:
        return invalid(issues, **where) if issues else InvalidRequest(message, **where)
    if reply.status >= 500:
        return ServiceError(message, **where)
    return BadReply(f"HTTP {reply.status} is no reply of an Assay service", **where)


def foreign_detail(reply: Reply) -> str:
    """What an error means that is no problem document."""
    if reply.status == 400 and b"HTTPS" in reply.body:  # in the words of nginx, Apache and Go
        return "the port speaks TLS: https:// is meant, in place of http://"
    return "no details"


def problem_document(reply: Reply) -> dict[str, Any]:
    """The problem document (RFC 9457), or an empty one where a proxy has answered in its own words."""
    try:
        document = loads(reply.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def issues_of(document: dict[str, Any]) -> list[Issue]:
    listed = document.get("errors")
    if not isinstance(listed, list):
        return []
    return [
        Issue(str(entry.get("path")), str(entry.get("reason")), str(entry.get("detail")))
        for entry in listed
        if isinstance(entry, dict)
    ]

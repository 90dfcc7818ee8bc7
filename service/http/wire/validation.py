"""The issues of requests: functions collect all of them, because clients want every one at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from ...errors import InvalidRequest, Issue, ScoringError, did_you_mean, one_of
from .envelope import MAX_UNKNOWN, Envelope

__all__ = ["INCLUDES", "element_issues", "envelope_issues", "field_issues", "issues_of", "parse_query"]

COLUMNS = ("references", "responses")
VALUES: dict[str, type[Any]] = {
    "reference_index": list,
    "config": dict,
    "include": list,
    "task": str,
    "groups": list,
    "configs": list,
}
"""Types of the other fields; a task may also be an array."""
INCLUDES = ("components", "advantages")
JSON_NAMES: dict[type[Any], str] = {list: "an array", dict: "an object", str: "a string"}

ROW_DETAILS = {
    ("responses", "wrong_type"): "must be a string",
    ("references", "wrong_type"): "must be a string or an object with steps",
    ("references", "bad_step_schema"): "must have one field, steps, an array of objects",
    ("references", "no_steps"): "it has no step",
    ("references", "too_long"): "its steps are over the limit of bytes",
}

MAX_ENTRIES = 256
"""Maximum entries of `config`, of all `configs` together, and of `include`."""

MAX_CONFIGS = 64
"""Maximum configurations in `configs`."""

FIELD_ERRORS = {
    "missing": ("missing_field", "this field is required"),
    "extra_forbidden": ("unknown_field", "there is no field of this name"),
    "dict_type": ("wrong_type", "must be an object"),
    "int_type": ("wrong_type", "must be an integer"),
    "list_type": ("wrong_type", "must be an array"),
    "string_type": ("wrong_type", "must be a string"),
    "greater_than_equal": ("out_of_range", "must be at least {ge}"),
    "less_than_equal": ("out_of_range", "must be at most {le}"),
}
"""Reason and detail by pydantic's error type."""


def issues_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Issue]]:
    """Return the function's result, or None and the issues of its ScoringError."""
    try:
        return function(*arguments), []
    except ScoringError as error:
        return None, list(error.issues)


def field_issues(model: type[BaseModel], document: Any) -> list[Issue]:
    """Return an issue for every field that is missing, unknown, or has a wrong type or range by `model`.

    Arrays and objects are not looked into, because pydantic would build an error for each of their elements: they have
    separate checks. Raise InvalidRequest if `document` is not an object, or has too many fields.
    """
    if type(document) is not dict:
        raise InvalidRequest([Issue("body", "wrong_type", "must be an object")])
    if len(document) > MAX_ENTRIES:
        raise InvalidRequest([entry_limit_issue("body")])
    shallow = {name: type(value)() if type(value) in (list, dict) else value for name, value in document.items()}
    try:
        model.model_validate(shallow)
    except ValidationError as error:
        return [
            Issue(str(found["loc"][0]), reason, detail.format(**found.get("ctx", {})))
            for found in error.errors(include_url=False, include_input=False)
            if len(found["loc"]) == 1
            for reason, detail in [FIELD_ERRORS.get(found["type"], ("wrong_type", "is not of the described type"))]
        ]
    return []


def envelope_issues(envelope: Envelope) -> list[Issue]:
    """Return the issues of the fields, without those of elements of columns."""
    if not envelope.is_object:
        return [Issue("body", "wrong_type", "must be an object")]
    if len(envelope.unknown) == MAX_UNKNOWN:
        return [entry_limit_issue("body")]
    issues = [
        Issue(name, "missing_field", "this field is required")
        for name in COLUMNS
        if getattr(envelope, name) is None and name not in envelope.not_arrays
    ]
    issues += [Issue(name, "wrong_type", "must be an array") for name in envelope.not_arrays]
    fields = [*COLUMNS, *VALUES]
    issues += [
        Issue(name, "unknown_field", "there is no field of this name" + did_you_mean(name, fields))
        for name in envelope.unknown
    ]
    for name, value in envelope.values.items():
        if name == "task" and type(value) is list:
            continue
        if type(value) is not VALUES[name]:
            issues.append(Issue(name, "wrong_type", f"must be {JSON_NAMES[VALUES[name]]}"))
        elif name == "include":
            issues += include_issues(value)
        elif name == "config" and len(value) > MAX_ENTRIES:
            issues.append(entry_limit_issue(name))
        elif name == "configs" and (len(value) > MAX_CONFIGS or settings_in(value) > MAX_ENTRIES):
            detail = f"more than {MAX_CONFIGS} configurations, or {MAX_ENTRIES} settings in all of them"
            issues.append(Issue(name, "too_many", detail))
    return issues


def element_issues(envelope: Envelope, name: str) -> list[Issue]:
    """Return an issue for every element of a column that is neither text nor steps."""
    return [
        Issue(f"{name}[{row}]", reason, ROW_DETAILS[name, reason])
        for row, reason in envelope.invalid_rows.get(name, ())
    ]


def include_issues(include: list[Any]) -> list[Issue]:
    if len(include) > MAX_ENTRIES:
        return [entry_limit_issue("include")]
    wrong = [(k, name) for k, name in enumerate(include) if name not in INCLUDES]
    return [Issue(f"include[{k}]", "unknown_column", one_of(name, INCLUDES)) for k, name in wrong]


def settings_in(configs: list[Any]) -> int:
    return sum(len(config) for config in configs if type(config) is dict)


def entry_limit_issue(name: str) -> Issue:
    return Issue(name, "too_many", f"more than {MAX_ENTRIES} entries")


def parse_query(query: bytes) -> tuple[dict[str, str], list[Issue]]:
    """Return the names and values of a query, and its issues; empty parts between `&` are ignored."""
    query = b"&".join(filter(None, query.split(b"&")))
    try:
        pairs = parse_qsl(query.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        return {}, [Issue("query", "wrong_type", "must be name=value pairs in UTF-8")]
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return dict(pairs), [Issue(f"query.{name}", "repeated_setting", "given more than once") for name in repeated]

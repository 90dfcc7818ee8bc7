"""Collects every validation error of a request that has already been found invalid.

Scoring stops at the first kind of error; clients want all of them at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from pydantic import BaseModel, ValidationError

from ....kernels.column import TextColumn
from ...errors import InvalidRequest, Issue, ScoringError, row_of
from ...scoring.reference_index import check_index, resolve_reference_index
from ...scoring.references import parse_references
from ...scoring.scorer import Scorer
from ...scoring.scores import group_advantages
from .envelope import Envelope
from .json_codec import (
    MAX_ENTRIES,
    Limits,
    element_issues,
    entry_limit_issue,
    envelope_issues,
    integer_issues,
    is_index,
)

__all__ = ["all_issues", "field_issues", "index_issues", "issues_of", "parse_issues", "parse_query"]

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


def all_issues(envelope: Envelope, scorer: Scorer, limits: Limits) -> list[Issue]:
    """Return every issue, in the order: fields, config, references, responses, index, advantages."""
    found = envelope_issues(envelope)
    if not envelope.is_object:
        return found
    invalid = {issue.path for issue in found}
    values = {name: value for name, value in envelope.values.items() if name not in invalid}
    if values.get("config"):
        overridden, issues = issues_of(scorer.with_overrides, values["config"])
        scorer = overridden or scorer
        found += issues
    issues = element_issues(envelope, "references")
    if envelope.references is not None:
        issues += parse_issues(envelope.references, scorer, limits, {issue.path for issue in issues})
    found += sorted(issues, key=row_of)
    found += element_issues(envelope, "responses")
    if envelope.references is not None and envelope.responses is not None and "reference_index" not in invalid:
        found += index_issues(envelope.responses.rows, envelope.references.rows, values, limits)
    return found


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


def parse_issues(references: TextColumn, scorer: Scorer, limits: Limits, reported: set[str]) -> list[Issue]:
    """Return the issues of references that cannot be parsed, except those of `reported` paths."""
    issues = issues_of(parse_references, references, scorer.settings.max_steps, limits.max_reference_bytes)[1]
    return [issue for issue in issues if issue.path not in reported]


def index_issues(responses: int, references: int, values: dict[str, Any], limits: Limits) -> list[Issue]:
    """Return the issues of `reference_index`: wrong length, invalid elements, and advantages without groups."""
    given = values.get("reference_index")
    if given is None:
        index, found = issues_of(resolve_reference_index, responses, references, None)
    else:
        index = np.array([entry if is_index(entry) else 0 for entry in given[: limits.max_responses]], np.int64)
        _, found = issues_of(resolve_reference_index, responses, references, np.empty(len(given), np.int64))
        wrong = integer_issues(given[: limits.max_responses])
        reported = {issue.path for issue in wrong}
        outside = issues_of(check_index, index, references)[1]
        found += wrong + [issue for issue in outside if issue.path not in reported]
    if not found and len(index) and "advantages" in values.get("include", ()):
        found = issues_of(group_advantages, np.zeros(len(index)), index, 0)[1]
    return found


def parse_query(query: bytes) -> tuple[dict[str, str], list[Issue]]:
    """Return the names and values of a query, and its issues.

    Empty parts between `&` are ignored.
    """
    query = b"&".join(filter(None, query.split(b"&")))
    try:
        pairs = parse_qsl(query.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except ValueError:
        return {}, [Issue("query", "wrong_type", "must be name=value pairs in UTF-8")]
    repeated = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    return dict(pairs), [Issue(f"query.{name}", "repeated_setting", "given more than once") for name in repeated]

"""Collects every validation error of a request that has already been found invalid.

Scoring stops at the first kind of fault; a client wants to see all of them at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import BaseModel, ValidationError

from ....kernels.column import TextColumn
from ...errors import Issue, ScoringError, row_of
from ...scoring.references import parse_references
from ...scoring.scorer import Scorer, check_index, resolve_reference_index
from ...scoring.scores import group_advantages
from .envelope import Envelope
from .json_codec import Limits, fault_issues, integer_issues, is_index, shape_issues

__all__ = ["all_issues", "field_issues", "index_issues", "issues_of", "unreadable"]

FIELD_ERRORS = {
    "missing": ("missing_field", "this field is required"),
    "extra_forbidden": ("unknown_field", "there is no field of this name"),
    "dict_type": ("wrong_type", "must be an object"),
    "int_type": ("wrong_type", "must be an integer"),
    "list_type": ("wrong_type", "must be an array"),
    "string_type": ("wrong_type", "must be a string"),
    "greater_than_equal": ("out_of_range", "{}"),
    "less_than_equal": ("out_of_range", "{}"),
}
"""Reason and detail by pydantic's type of an error; `{}` is its own message."""


def all_issues(envelope: Envelope, scorer: Scorer, limits: Limits) -> list[Issue]:
    """Every offending place, in the order: fields, config, references, responses, index, advantages."""
    found = shape_issues(envelope)
    if not envelope.is_object:
        return found
    broken = {issue.path for issue in found}
    values = {name: value for name, value in envelope.values.items() if name not in broken}
    if values.get("config"):
        overridden, issues = issues_of(scorer.with_overrides, values["config"])
        scorer = overridden or scorer
        found += issues
    faults = fault_issues(envelope, "references")
    if envelope.references is not None:
        faults += unreadable(envelope.references, scorer, limits, {issue.path for issue in faults})
    found += sorted(faults, key=row_of)
    found += fault_issues(envelope, "responses")
    if envelope.references is not None and envelope.responses is not None and "reference_index" not in broken:
        found += index_issues(envelope.responses.rows, envelope.references.rows, values, limits)
    return found


def issues_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Issue]]:
    """The function's result, or None with what it found."""
    try:
        return function(*arguments), []
    except ScoringError as error:
        return None, list(error.issues)


def field_issues(model: type[BaseModel], document: Any) -> list[Issue]:
    """Return an issue for every field that is missing, unknown, or not of the type or range that `model` describes.

    Errors inside of a field are left to the checks of that field.
    """
    if type(document) is not dict:
        return [Issue("body", "wrong_type", "must be an object")]
    try:
        model.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        issues = []
        for one in found:
            if len(one["loc"]) == 1:
                reason, detail = FIELD_ERRORS.get(one["type"], ("wrong_type", "{}"))
                issues.append(Issue(str(one["loc"][0]), reason, detail.format(one["msg"])))
        return issues
    return []


def unreadable(references: TextColumn, scorer: Scorer, limits: Limits, named: set[str]) -> list[Issue]:
    """References that cannot be read, apart from those that are named already."""
    issues = issues_of(parse_references, references, scorer.settings.max_steps, limits.max_reference_bytes)[1]
    return [issue for issue in issues if issue.path not in named]


def index_issues(responses: int, references: int, values: dict[str, Any], limits: Limits) -> list[Issue]:
    """A length that does not fit, elements that are no index, and advantages without any group."""
    given = values.get("reference_index")
    if given is None:
        index, found = issues_of(resolve_reference_index, responses, references, None)
    else:
        index = np.array([entry if is_index(entry) else 0 for entry in given[: limits.max_responses]], np.int64)
        _, found = issues_of(resolve_reference_index, responses, references, np.empty(len(given), np.int64))
        wrong = integer_issues(given[: limits.max_responses])
        named = {issue.path for issue in wrong}
        outside = issues_of(check_index, index, references)[1]
        found += wrong + [issue for issue in outside if issue.path not in named]
    if not found and len(index) and "advantages" in values.get("include", ()):
        found = issues_of(group_advantages, np.zeros(len(index)), index, 0)[1]
    return found

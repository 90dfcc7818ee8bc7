"""Reading references of SCORE: what is wrong with each, and the kernels' form of the valid ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import orjson

from ...kernels.batch import OVER_LIMIT
from ...kernels.column import TextColumn, column_of
from ...kernels.json_columns import (
    FIT,
    FROM_STEPS,
    JSON_TEXT,
    MAX_ALTERNATIVES,
    NO_ALTERNATIVE,
    NO_STEP_GIVEN,
    NOT_STEPS,
    STEPS_TOO_LONG,
    TOO_MANY_ALTERNATIVES,
    WRONG_TYPE,
    mark_json_texts,
)
from ...kernels.reading.references import References
from ...kernels.rules import OK, REASONS
from ..errors import InvalidReference, Issue
from .labels import SCORE, read_list
from .references import MAX_REFERENCE_BYTES, ReferenceTexts, alternatives_of, flattened
from .shares import read
from .texts import text_column, utf8

_STEP_FIELDS = ("action", "objects", "parameters")
NO_OBJECT = "wrong_type", "must be a string or an object with steps"
OTHER_FIELDS = "bad_step_schema", "must have one field: steps, or any_of, an array"
NO_STEPS = "no_steps", "it has no step"
NO_ALTERNATIVES = "no_alternatives", "any_of is empty"
TOO_MANY = "too_many", f"any_of has more than {MAX_ALTERNATIVES} references"
FAULTS = {
    WRONG_TYPE: NO_OBJECT,
    NOT_STEPS: OTHER_FIELDS,
    NO_STEP_GIVEN: NO_STEPS,
    STEPS_TOO_LONG: ("too_long", "its steps are over the limit of bytes"),
    NO_ALTERNATIVE: NO_ALTERNATIVES,
    TOO_MANY_ALTERNATIVES: TOO_MANY,
}
"""Reason and detail of a reference that is neither text nor steps, by its kind."""


def as_column(references: ReferenceTexts) -> tuple[ReferenceTexts, list[Issue]]:
    """Return references as a column, and an issue for each that is neither text nor steps."""
    texts, kinds, _ = references
    if not isinstance(texts, TextColumn):
        return references_as_column(texts)
    if kinds is None or kinds.max(initial=FIT) <= FROM_STEPS:
        return references, []
    faulty = np.flatnonzero(kinds > FROM_STEPS)
    faults = {row: FAULTS[int(kinds[row])] for row in faulty.tolist()}
    for row in faulty[kinds[faulty] == NOT_STEPS][:MAX_EXPLAINED].tolist():
        faults[row] = _explained(texts.data[texts.offsets[row] : texts.offsets[row + 1]]) or faults[row]
    return references, [Issue(references.path(row), *fault) for row, fault in faults.items()]


def _explained(text: np.ndarray) -> tuple[str, str] | None:
    """Return reason and detail of a reference in JSON; None if it is too long."""
    try:
        return _validation_error(json.loads(text.tobytes())) if text.size <= MAX_EXPLAINED_BYTES else None
    except (ValueError, RecursionError):
        return None


def references_as_column(
    references: Sequence[Any], take_alternatives: bool = True
) -> tuple[ReferenceTexts, list[Issue]]:
    """Convert references to a column; return it and the issues of malformed references, whose text is empty.

    take_alternatives: whether references may have alternatives.
    """
    if isinstance(references, (str, bytes)) or not isinstance(references, Sequence):
        raise InvalidReference([Issue("references", "wrong_type", "a list of references is needed")])
    references, _ = read_list(references, (SCORE,))
    try:
        return ReferenceTexts(column_of([reference.encode() for reference in references])), []
    except (AttributeError, UnicodeEncodeError):
        pass  # some are steps, or invalid
    flat, alternatives = flattened(references) if take_alternatives else (list(references), None)
    path_of = ReferenceTexts(flat, None, alternatives).path
    texts: list[bytes] = []
    kinds = np.full(len(flat), FIT, np.uint8)
    issues: list[Issue] = []
    for k, reference in enumerate(flat):
        if isinstance(reference, str):
            texts.append(utf8(reference))
        elif (error := _validation_error(reference)) is not None:
            issues.append(Issue(path_of(k), *error))
            texts.append(b"")
        else:
            kinds[k] = FROM_STEPS
            texts.append(_key_lines(reference["steps"]))
    return ReferenceTexts(column_of(texts), kinds, alternatives), issues


def _validation_error(reference: Any) -> tuple[str, str] | None:
    if not isinstance(reference, Mapping):
        return NO_OBJECT
    if (entries := alternatives_of(reference)) is not None:
        return NO_ALTERNATIVES if not entries else TOO_MANY if len(entries) > MAX_ALTERNATIVES else OTHER_FIELDS
    steps = reference.get("steps")
    if set(reference) != {"steps"} or not isinstance(steps, Sequence) or isinstance(steps, (str, bytes)):
        return OTHER_FIELDS
    if not steps:
        return NO_STEPS
    for number, step in enumerate(steps, 1):
        if not isinstance(step, Mapping):
            return "bad_step_schema", f"step {number} is not an object with action, objects and parameters"
        if problem := wrong_fields(step):
            return "bad_step_schema", f"step {number}: {problem}"
    return None


def wrong_fields(step: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with the fields of a step, without its text: `missing field parameters`; or None."""
    if missing := [name for name in _STEP_FIELDS if name not in step]:
        return f"missing {'field' if len(missing) == 1 else 'fields'} {', '.join(missing)}"
    if not isinstance(step["action"], str):
        return "action is not a string"
    for name in _STEP_FIELDS[1:]:
        if not isinstance(step[name], (list, tuple)):
            return f"{name} is not an array of strings"
        if not all(isinstance(value, str) for value in step[name]):
            return f"{name} contains a value that is not a string"
    if len(step) > len(_STEP_FIELDS):
        return f"it has fields other than {', '.join(_STEP_FIELDS)}"
    return None


def _key_lines(steps: Sequence[Mapping[str, Any]]) -> bytes:
    return b"\n".join(b"Step %d: %b" % (number, _dumps(dict(step))) for number, step in enumerate(steps, 1))


def _dumps(step: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(step)
    except TypeError:  # lone surrogates, which orjson rejects
        return utf8(json.dumps(step, ensure_ascii=False, separators=(",", ":")))


_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step: a line such as 'Step 1: {{...}}' is needed",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "{place} {line}: {fields}",
}

NOT_AN_OBJECT = "it begins with a brace, but is not the text of one JSON object"

MAX_EXPLAINED = 100
"""References whose wrong fields are named: bounds the time."""

MAX_LINE_BYTES = 4096
MAX_EXPLAINED_BYTES = 1 << 14
"""Bytes of a reference in JSON that is parsed to say what is wrong with it."""

_FIELDS = "it must be an action with at least one word, objects and parameters, and nothing else"


def issues_of(
    references: ReferenceTexts, statuses: np.ndarray, bad_lines: np.ndarray, max_steps: int, max_bytes: int
) -> list[Issue]:
    """Return an issue for each reference that is invalid. statuses, bad_lines: as `score_batch` writes them."""
    rows = np.flatnonzero(statuses != OK)
    if not rows.size:
        return []
    texts, kinds = references.texts, references.kinds
    column = texts if isinstance(texts, TextColumn) else text_column(texts)
    marks = np.empty(column.rows, np.uint8)
    mark_json_texts(marks, *column)
    unreadable = (statuses == REASONS.index("bad_step_line")) & (bad_lines == 0)
    is_object = unreadable & (marks == JSON_TEXT)
    is_steps = np.zeros(column.rows, bool) if kinds is None else kinds == FROM_STEPS
    explained = np.flatnonzero(statuses == REASONS.index("bad_step_schema"))[:MAX_EXPLAINED].tolist()
    fields = {
        row: _wrong_fields(column.data[column.offsets[row] : column.offsets[row + 1]].tobytes(), int(bad_lines[row]))
        for row in explained
    }

    @cache  # many issues have the same
    def detail_of(status: int, line: int, begins_with_brace: bool, is_steps: bool, wrong: str) -> tuple[str, str]:
        if status == OVER_LIMIT:
            return "too_long", f"it has more than {max_bytes} bytes"
        reason = REASONS[status]
        detail = NOT_AN_OBJECT if begins_with_brace else _DETAILS[reason]
        place = "step" if is_steps else "line"
        return reason, detail.format(place=place, line=line + 1, max_steps=max_steps, fields=wrong)

    columns = (values[rows].tolist() for values in (statuses, bad_lines, is_object, is_steps))
    return [
        Issue(references.path(row), *detail_of(*which, fields.get(row, _FIELDS)))
        for row, *which in zip(rows.tolist(), *columns, strict=True)
    ]


def issues_of_all(
    references: ReferenceTexts, malformed: Sequence[Issue], max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES
) -> list[Issue]:
    """Merge the issues of malformed references with those of invalid texts in a column."""
    named = {issue.path for issue in malformed}
    _, issues = parse_valid_references(references, max_steps, max_bytes)
    invalid = [issue for issue in issues if issue.path not in named]
    return sorted([*malformed, *invalid], key=place_of) if invalid else list(malformed)


def place_of(issue: Issue) -> tuple[int, int]:
    """Return the numbers of an invalid reference and of its alternative, -1 without alternatives."""
    _, row, *alternative = issue.path.split("[")
    return int(row.partition("]")[0]), int(alternative[0].rstrip("]")) if alternative else -1


def parse_valid_references(
    references: ReferenceTexts, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES
) -> tuple[References, list[Issue]]:
    """Parse a column of references; return them, the invalid ones without steps, and the issues of these, in order."""
    parsed, statuses, bad_lines = read(references, max_bytes, max_steps)
    return parsed, issues_of(references, statuses, bad_lines, max_steps, max_bytes)


def _wrong_fields(text: bytes, line: int) -> str:
    lines = text.split(b"\n", line + 1)
    step = lines[line] if line < len(lines) else b""
    try:
        value = json.loads(step[step.index(b"{") :]) if len(step) <= MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        value = None
    return (wrong_fields(value) if isinstance(value, dict) else None) or _FIELDS

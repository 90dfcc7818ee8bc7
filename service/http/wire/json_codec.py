"""Decodes JSON requests to columns, and encodes result columns as JSON replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.status import REASONS
from ...errors import InvalidRequest, Issue
from ...evaluate.task_rewards import SCORE, TaskScores, reward_names
from ...scoring.reference_index import check_index, resolve_reference_index
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .envelope import MAX_UNKNOWN, Envelope, NotJsonError, TooManyError, open_envelope
from .problems import Problem

__all__ = ["Answer", "Batch", "Limits", "decode_score_request", "encode", "json_document", "parse_envelope"]

COLUMNS = ("references", "responses")
VALUES: dict[str, type[Any]] = {"reference_index": list, "config": dict, "include": list, "task": str}
INCLUDES = ("components", "advantages")

JSON_NAMES: dict[type[Any], str] = {list: "an array", dict: "an object", str: "a string"}

ROW_DETAILS = {
    ("responses", "wrong_type"): "must be a string",
    ("references", "wrong_type"): "must be a string or an object with steps",
    ("references", "bad_step_schema"): "must have one field, steps, an array of objects",
    ("references", "no_steps"): "it has no step",
    ("references", "too_long"): "its steps are over the limit of bytes",
}

MAX_LIST_ROWS = 64
"""Rows up to which lists are encoded faster than arrays."""

MAX_REPARSED_BYTES = 1 << 20
"""Maximum bytes of a body that is parsed again to locate an error: objects take many times the memory of the text."""

MAX_ENTRIES = 256
"""Maximum entries of `config` and of `include`."""

MIN_CONTAINER_BYTES = 8
"""Minimum bytes of a body per array or object: empty ones take some thirty times the memory of their text. Records have
about a hundred bytes per container."""
FREE_CONTAINERS = 4_096


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request that are not settings of the reward."""

    max_body_bytes: int
    max_responses: int
    max_reference_bytes: int
    max_compared_bytes: int = 1 << 30
    """Total bytes of references over all responses, for tasks that reread the reference for each response."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded request, with the columns of its reply."""

    responses: TextColumn
    references: TextColumn
    reference_index: np.ndarray
    """int64, one per response."""
    scorer: Scorer
    max_reference_bytes: int
    components: bool
    advantages: bool

    def score(self) -> Scores:
        """Score the request; raise InvalidReference naming every invalid reference."""
        return self.scorer.score_columns(
            self.responses, self.references, self.reference_index, self.max_reference_bytes
        )


def parse_envelope(body: bytes | bytearray, limits: Limits) -> Envelope:
    """Parse the body into columns and values; raise Problem `not-json`, which quotes no text, and `too-large`."""
    try:
        return open_envelope(body, limits.max_responses, limits.max_reference_bytes)
    except NotJsonError:
        raise not_json(body) from None
    except TooManyError as error:
        max_rows = limits.max_responses
        issues = [Issue(str(error), "too_many", f"more than {max_rows} elements, or too many bytes")]
        raise Problem("too-large", f"A request may have {max_rows} responses and as many references.", issues) from None


def not_json(body: bytes | bytearray) -> Problem:
    """Return the problem of a body that is not JSON."""
    return Problem("not-json", "The body is not JSON in UTF-8.", [Issue("body", "not_json", first_error(body))])


def first_error(body: bytes | bytearray) -> str:
    """Return the position of the error in a small body; the parser's messages are constants that quote nothing."""
    if len(body) <= MAX_REPARSED_BYTES:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return f"{error.msg}, at character {error.pos}" if error.pos else error.msg
    return "it is not one JSON text in UTF-8"


def json_document(body: bytes | bytearray) -> Any:
    """Parse the body; raise Problem `not-json`, and `too-large` if its objects would take too much memory."""
    containers = body.count(b"[") + body.count(b"{")
    if containers > FREE_CONTAINERS + len(body) // MIN_CONTAINER_BYTES:
        issue = Issue("body", "too_many", f"more than one array or object per {MIN_CONTAINER_BYTES} bytes")
        raise Problem("too-large", "The body has too many arrays and objects for its length.", [issue])
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise not_json(body) from None


def decode_score_request(envelope: Envelope, scorer: Scorer, limits: Limits) -> Batch:
    """Return the columns of a request.

    Raise ScoringError for the first kind of error; `validation.all_issues` finds the others.
    """
    issues = envelope_issues(envelope)
    if issues or envelope.invalid_rows or envelope.responses is None or envelope.references is None:
        raise InvalidRequest(issues or [found for name in COLUMNS for found in element_issues(envelope, name)])
    values = envelope.values
    overrides, include = values.get("config"), values.get("include", ())
    if overrides:
        scorer = scorer.with_overrides(overrides)
    return Batch(
        envelope.responses,
        envelope.references,
        read_index(values.get("reference_index"), envelope.responses.rows, envelope.references.rows),
        scorer,
        limits.max_reference_bytes,
        "components" in include,
        "advantages" in include,
    )


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
    issues += [Issue(name, "unknown_field", "there is no field of this name") for name in envelope.unknown]
    for name, value in envelope.values.items():
        if type(value) is not VALUES[name]:
            issues.append(Issue(name, "wrong_type", f"must be {JSON_NAMES[VALUES[name]]}"))
        elif name == "include":
            issues += include_issues(value)
        elif name == "task" and value != SCORE:
            issues.append(Issue(name, "unknown_task", f"must be one of: {', '.join(reward_names())}"))
        elif name == "config" and len(value) > MAX_ENTRIES:
            issues.append(entry_limit_issue(name))
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
    detail = f"must be one of: {', '.join(INCLUDES)}"
    return [Issue(f"include[{k}]", "unknown_column", detail) for k, n in enumerate(include) if n not in INCLUDES]


def read_index(entries: list[Any] | None, responses: int, references: int) -> np.ndarray:
    """Return `reference_index` as int64, the default if None; raise InvalidRequest."""
    if entries is not None:
        issues = integer_issues(entries)
        if issues:
            raise InvalidRequest(issues)
    integers: Any = None if entries is None else np.array(entries, np.int64)
    index = resolve_reference_index(responses, references, integers)
    check_index(index, references)
    return index


def integer_issues(entries: list[Any]) -> list[Issue]:
    """Return an issue for every element that is not a 64-bit integer (true and 1.0 are not)."""
    if set(map(type, entries)) <= {int} and (not entries or max(entries) < 2**63):
        return []
    detail = "must be a 64-bit integer"
    return [Issue(f"reference_index[{k}]", "wrong_type", detail) for k, e in enumerate(entries) if not is_index(e)]


def is_index(entry: Any) -> bool:
    """Return True if `entry`, as parsed from JSON, is an integer that fits an int64."""
    return type(entry) is int and entry < 2**63


def entry_limit_issue(name: str) -> Issue:
    return Issue(name, "too_many", f"more than {MAX_ENTRIES} entries")


class Answer(NamedTuple):
    """The bytes of a reply, and the scores that the metrics count (of the fast path: valid until its next request)."""

    body: bytes
    scores: Scores


class ReplyColumns(Protocol):
    """The optional columns of a reply."""

    @property
    def components(self) -> bool: ...
    @property
    def advantages(self) -> bool: ...


def encode(scores: Scores | TaskScores, columns: ReplyColumns, config_id: str) -> bytes:
    """Return the bytes of the reply; raise ArithmeticError if a number is not finite."""
    as_lists = len(scores) <= MAX_LIST_ROWS
    reasons = scores.reasons if isinstance(scores, TaskScores) else [REASONS[c] for c in scores.reason_codes.tolist()]

    def encodable(column: np.ndarray) -> Any:
        return column.tolist() if as_lists else column

    reply: dict[str, Any] = {"rewards": encodable(scores.rewards), "reasons": reasons}
    if columns.components:
        reply["components"] = {name: encodable(column) for name, column in scores.components.items()}
    if columns.advantages:
        reply["advantages"] = encodable(scores.advantages())
    reply["config_id"] = config_id
    body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body:  # orjson encodes NaN and infinities as null, which no reply contains otherwise
        raise ArithmeticError("a result is not a finite number")
    return body

"""Bytes of a JSON request to columns, and result columns to bytes of a JSON reply."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.status import REASONS
from ...errors import InvalidRequest, Issue
from ...evaluate.task_rewards import SCORE, reward_names
from ...scoring.scorer import Scorer, check_index, resolve_reference_index
from ...scoring.scores import Scores
from .envelope import MAX_UNKNOWN, Envelope, NotJsonError, TooManyError, open_envelope
from .problems import Problem

__all__ = ["Batch", "Limits", "decode_score_request", "encode", "json_document", "parse_envelope"]

COLUMNS = ("references", "responses")
VALUES: dict[str, type[Any]] = {"reference_index": list, "config": dict, "include": list, "task": str}
INCLUDES = ("components", "advantages")

JSON_NAMES: dict[type[Any], str] = {list: "an array", dict: "an object", str: "a string"}

FAULT_DETAILS = {
    ("responses", "wrong_type"): "must be a string",
    ("references", "wrong_type"): "must be a string or an object with steps",
    ("references", "bad_step_schema"): "must have one field, steps, an array of objects",
    ("references", "no_steps"): "it has no step",
    ("references", "too_long"): "its steps are over the limit of bytes",
}

FEW = 64
"""Rows up to which lists are encoded faster than arrays are looked into."""

MAX_EXPLAINED = 1 << 20
"""Bytes of a body that a second parser is given to say where it is wrong: its objects take many times the text."""

MAX_ENTRIES = 256
"""Entries of `config` and of `include` that are looked at: more cannot all be meant."""


MIN_CONTAINER_BYTES = 8
"""Minimum of a body's bytes for each of its arrays and objects: as Python objects, empty ones would take some thirty
times their text. Records have one in a hundred bytes."""
FREE_CONTAINERS = 4_096


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request that are no settings of the reward."""

    max_body_bytes: int
    max_responses: int
    max_reference_bytes: int
    max_compared_bytes: int = 1 << 30
    """Bytes of the references of all responses together, where a task goes through one again for each response."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded request: everything that scoring needs, and what the reply shall hold."""

    responses: TextColumn
    references: TextColumn
    reference_index: np.ndarray
    """int64, one per response."""
    scorer: Scorer
    most_reference_bytes: int
    components: bool
    advantages: bool

    def score(self) -> Scores:
        """Score the request; raise InvalidReference naming every reference that is not one."""
        return self.scorer.score_columns(
            self.responses, self.references, self.reference_index, self.most_reference_bytes
        )


def parse_envelope(body: bytes | bytearray, limits: Limits) -> Envelope:
    """Parse the body into columns and values; raise Problem `not-json`, which quotes no text, and `too-large`."""
    try:
        return open_envelope(body, limits.max_responses, limits.max_reference_bytes)
    except NotJsonError:
        raise not_json(body) from None
    except TooManyError as error:
        most = limits.max_responses
        issues = [Issue(str(error), "too_many", f"more than {most} elements, or longer than they can be")]
        raise Problem("too-large", f"A request may have {most} responses and as many references.", issues) from None


def not_json(body: bytes | bytearray) -> Problem:
    """Return the problem of a body that is not JSON."""
    return Problem("not-json", "The body is not JSON in UTF-8.", [Issue("body", "not_json", first_error(body))])


def first_error(body: bytes | bytearray) -> str:
    """Say where a small body ceases to be JSON: the parser's message is a constant, the position a number."""
    if len(body) <= MAX_EXPLAINED:
        try:
            orjson.loads(body)
        except orjson.JSONDecodeError as error:
            return f"{error.msg}, at character {error.pos}" if error.pos else error.msg
    return "it is not one JSON text in UTF-8"


def json_document(body: bytes | bytearray) -> Any:
    """Parse the body; raise Problem `not-json`, and `too-large` for one that would take too much memory as objects."""
    containers = body.count(b"[") + body.count(b"{")
    if containers > FREE_CONTAINERS + len(body) // MIN_CONTAINER_BYTES:
        issue = Issue("body", "too_many", f"more than an array or object for {MIN_CONTAINER_BYTES} bytes")
        raise Problem("too-large", "The body has too many arrays and objects for its length.", [issue])
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise not_json(body) from None


def decode_score_request(envelope: Envelope, scorer: Scorer, limits: Limits) -> Batch:
    """Return the columns of a request.

    Raise ScoringError at the first kind of fault; `validation.all_issues` finds the others.
    """
    issues = shape_issues(envelope)
    if issues or envelope.faults or envelope.responses is None or envelope.references is None:
        raise InvalidRequest(issues or [found for name in COLUMNS for found in fault_issues(envelope, name)])
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


def shape_issues(envelope: Envelope) -> list[Issue]:
    """What is wrong with the fields themselves; their elements are looked at elsewhere."""
    if not envelope.is_object:
        return [Issue("body", "wrong_type", "must be an object")]
    if len(envelope.unknown) == MAX_UNKNOWN:
        return [too_many_entries("body")]
    issues = [
        Issue(name, "missing_field", "this field is required")
        for name in COLUMNS
        if getattr(envelope, name) is None and name not in envelope.misfits
    ]
    issues += [Issue(name, "wrong_type", "must be an array") for name in envelope.misfits]
    issues += [Issue(name, "unknown_field", "there is no field of this name") for name in envelope.unknown]
    for name, value in envelope.values.items():
        if type(value) is not VALUES[name]:
            issues.append(Issue(name, "wrong_type", f"must be {JSON_NAMES[VALUES[name]]}"))
        elif name == "include":
            issues += include_issues(value)
        elif name == "task" and value != SCORE:
            issues.append(Issue(name, "unknown_task", f"must be one of: {', '.join(reward_names())}"))
        elif name == "config" and len(value) > MAX_ENTRIES:
            issues.append(too_many_entries(name))
    return issues


def fault_issues(envelope: Envelope, name: str) -> list[Issue]:
    """The elements of a column that are no text, nor steps."""
    return [
        Issue(f"{name}[{row}]", reason, FAULT_DETAILS[name, reason]) for row, reason in envelope.faults.get(name, ())
    ]


def include_issues(include: list[Any]) -> list[Issue]:
    if len(include) > MAX_ENTRIES:
        return [too_many_entries("include")]
    detail = f"must be one of: {', '.join(INCLUDES)}"
    return [Issue(f"include[{k}]", "unknown_column", detail) for k, n in enumerate(include) if n not in INCLUDES]


def read_index(given: list[Any] | None, responses: int, references: int) -> np.ndarray:
    """`reference_index` as int64, with its defaults where it is None; raises InvalidRequest."""
    if given is not None:
        issues = integer_issues(given)
        if issues:
            raise InvalidRequest(issues)
    integers: Any = None if given is None else np.array(given, np.int64)
    index = resolve_reference_index(responses, references, integers)
    check_index(index, references)
    return index


def integer_issues(given: list[Any]) -> list[Issue]:
    """Elements that are no integers of 64 bits; true and 1.0 are none."""
    if set(map(type, given)) <= {int} and (not given or max(given) < 2**63):
        return []
    detail = "must be an integer of 64 bits"
    return [Issue(f"reference_index[{k}]", "wrong_type", detail) for k, e in enumerate(given) if not is_index(e)]


def is_index(entry: Any) -> bool:
    """Whether `entry`, as the JSON parser gives it, is an integer that fits an int64."""
    return type(entry) is int and entry < 2**63


def too_many_entries(name: str) -> Issue:
    return Issue(name, "too_many", f"more than {MAX_ENTRIES} entries")


class ReplyColumns(Protocol):
    """The columns of a reply besides rewards and reasons."""

    @property
    def components(self) -> bool: ...
    @property
    def advantages(self) -> bool: ...


def encode(scores: Scores, columns: ReplyColumns, config_id: str) -> bytes:
    """The reply's bytes; raises ArithmeticError rather than let a number that is not finite through."""
    few = len(scores) <= FEW

    def plain(column: np.ndarray) -> Any:
        return column.tolist() if few else column

    reply: dict[str, Any] = {
        "rewards": plain(scores.rewards),
        "reasons": [REASONS[code] for code in scores.reason_codes.tolist()],
    }
    if columns.components:
        reply["components"] = {name: plain(column) for name, column in scores.components.items()}
    if columns.advantages:
        reply["advantages"] = plain(scores.advantages())
    reply["config_id"] = config_id
    body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body:  # orjson writes NaN and the infinities so, and there is no other null in a reply
        raise ArithmeticError("a result is not a finite number")
    return body

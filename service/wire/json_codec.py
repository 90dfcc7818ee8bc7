"""JSON requests and replies, by the general path."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
import orjson
from pydantic import BaseModel, ValidationError

from ...kernels.column import TextColumn, frozen
from ...kernels.json_columns import (
    COLUMN,
    FIELDS,
    FROM_STEPS,
    JSON_TEXT,
    NOT_AN_OBJECT,
    NOT_JSON,
    TOO_MANY,
    VALUE,
    read_envelope,
)
from ...kernels.json_parts import allocate_parts
from ...kernels.json_steps import ROW_ROOM, STEP_ROOM, write_steps
from ...kernels.rules import REASONS
from ..errors import InvalidRequest, Issue, ScoringError, did_you_mean, one_of
from ..rewards.batch import Batch
from ..rewards.batch_tasks import NO_CONFIGS, follow_labels, read_labels, set_tasks
from ..rewards.registry import SCORE, identity_of
from ..rewards.scorer import Scorer, set_config
from ..rewards.scores import Scores, StepTable
from ..scoring.configurations import overridden_by_each
from ..scoring.reference_reader import FAULTS
from ..scoring.references import ReferenceTexts
from .problems import Problem
from .work import check_work

MAX_UNKNOWN = 256
MAX_VALUE_BYTES = 1 << 20
PER_RESPONSE = ("reference_index", "task", "groups")
"""Fields with an entry for each response."""
BYTES_PER_ENTRY = 128
"""Room for the name of a group or a task, or an index of at most 2^63, with generous whitespace."""


class NotJsonError(ValueError):
    """The body is not JSON."""


class TooManyError(ValueError):
    """The named field has too many elements, or more bytes than a value of its kind can need."""


@dataclass(slots=True, kw_only=True)
class Envelope:
    """The fields of a body. A column is None if its field is missing or not an array."""

    is_object: bool = True
    references: ReferenceTexts | None = None
    """Their kinds may also be `JSON_TEXT`: text that begins with a brace."""
    responses: TextColumn | None = None
    invalid_rows: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By column, the rows that are neither text nor steps, with the reason; the text of a response is undefined."""
    not_arrays: list[str] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """Values of the other known fields, as Python objects."""
    unknown: list[str] = field(default_factory=list)


def open_envelope(
    body: bytes | bytearray | memoryview, max_rows: int, max_reference_bytes: int, threads: int = 1
) -> Envelope:
    """Parse a JSON body (RFC 8259) without holding the GIL; raise NotJsonError, and TooManyError naming the field.

    A long body is read on up to `threads` threads.
    """
    data = frozen(np.frombuffer(body, np.uint8), np.uint8)
    capacity = min(max_rows, data.shape[0] // 3 + 1)
    fields = np.empty((len(FIELDS), 3), np.int64)
    unknown = np.empty((MAX_UNKNOWN + 1, 2), np.int64)
    texts = np.empty((2, 5 * data.shape[0] + 64), np.uint8)
    offsets = np.empty((2, capacity + 1), np.int64)
    kinds = np.empty((2, capacity), np.uint8)
    scratch = np.empty(data.shape[0] + 64, np.uint8)
    parts = allocate_parts(data.shape[0] if threads > 1 else 0)
    helpers = min(threads, len(parts)) - 1
    outcome = read_envelope(fields, unknown, texts, offsets, kinds, scratch, data, max_reference_bytes, parts, helpers)
    if outcome == NOT_JSON:
        raise NotJsonError
    if outcome == NOT_AN_OBJECT:
        return Envelope(is_object=False)
    if outcome == TOO_MANY:
        raise TooManyError(FIELDS[int(np.argmin(fields[:2, 1]))])
    envelope = Envelope()
    for row, name in enumerate(FIELDS):
        state, first, second = fields[row].tolist()
        if state == COLUMN:
            end = int(offsets[row, first])
            column = TextColumn.of(texts[row, :end], offsets[row, : first + 1])
            if second:
                faulty = (kinds[row, :first] > FROM_STEPS) & (kinds[row, :first] != JSON_TEXT)
                rows = np.flatnonzero(faulty).tolist()
                envelope.invalid_rows |= {name: [(k, FAULTS[int(kinds[row, k])][0]) for k in rows]} if rows else {}
            if name == "references":
                envelope.references = ReferenceTexts(column, kinds[row, :first])
            else:
                envelope.responses = column
        elif state == VALUE and row < len(texts):
            envelope.not_arrays.append(name)
        elif state == VALUE:
            envelope.values[name] = _value(body, name, first, second, max_rows)
    count = min(int(unknown[0, 0]), MAX_UNKNOWN)
    names = (orjson.loads(bytes(body[start:stop])) for start, stop in unknown[1 : count + 1].tolist())
    envelope.unknown = list(dict.fromkeys(names))
    return envelope


def _value(body: bytes | bytearray | memoryview, name: str, start: int, stop: int, max_rows: int) -> Any:
    """Parse the value `body[start:stop]`; raise TooManyError if it is large, as objects take much more memory."""
    allowed = max(MAX_VALUE_BYTES, BYTES_PER_ENTRY * max_rows) if name in PER_RESPONSE else MAX_VALUE_BYTES
    if stop - start > allowed:
        raise TooManyError(name)
    value = bytes(body[start:stop])
    if has_too_many_containers(value):
        raise TooManyError(name)
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError:  # a number that no double can represent
        raise NotJsonError from None
    if name == "groups" and isinstance(parsed, list) and float in set(map(type, parsed)):
        with suppress(ValueError, RecursionError):
            return json.loads(value)  # orjson reads integers of more than 64 bits as floats
    return parsed


MIN_CONTAINER_BYTES = 8
"""Minimum bytes of a text per array or object beyond the free ones: empty ones take some thirty times their text.
Records have about a hundred bytes per container."""
FREE_CONTAINERS = 4_096


def has_too_many_containers(text: bytes | bytearray) -> bool:
    return text.count(b"[") + text.count(b"{") > FREE_CONTAINERS + len(text) // MIN_CONTAINER_BYTES


MAX_ENTRIES = 256
"""Maximum entries of `config`, of all `configs` together, and of `include`."""


def issues_of(function: Callable[..., Any], *arguments: Any) -> tuple[Any, list[Issue]]:
    """Return the function's result, or None and the issues of its ScoringError."""
    try:
        return function(*arguments), []
    except ScoringError as error:
        return None, list(error.issues)


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
            Issue(str(entry["loc"][0]), reason, detail.format(**entry.get("ctx", {})))
            for entry in error.errors(include_url=False, include_input=False)
            if len(entry["loc"]) == 1
            for reason, detail in [FIELD_ERRORS.get(entry["type"], ("wrong_type", "is not of the described type"))]
        ]
    return []


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
JSON_NAMES: dict[type[Any], str] = {list: "an array", dict: "an object", str: "a string"}
MAX_CONFIGS = 64
"""Maximum configurations in `configs`."""


def envelope_issues(envelope: Envelope) -> list[Issue]:
    """Return the issues of the fields, without issues of elements of columns."""
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


def response_issues(envelope: Envelope) -> list[Issue]:
    """Return an issue for every response that is not text."""
    rows = envelope.invalid_rows.get("responses", ())
    return [Issue(f"responses[{row}]", reason, "must be a string") for row, reason in rows]


INCLUDES = ("components", "advantages", "steps")


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


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request that are not settings of the reward."""

    max_body_bytes: int
    max_responses: int
    max_reference_bytes: int
    max_reply_bytes: int = 1 << 30
    """Maximum bytes of any reply; its request may allow fewer (see `reply_bounds.py`)."""
    threads: int = 1
    """Maximum threads that read a body."""


def parse_envelope(body: bytes | bytearray, limits: RequestLimits) -> Envelope:
    """Parse the body into columns and values; raise Problem `not-json`, which quotes no text, and `too-large`."""
    try:
        return open_envelope(body, limits.max_responses, limits.max_reference_bytes, limits.threads)
    except NotJsonError:
        raise not_json(body) from None
    except TooManyError as error:
        max_rows = limits.max_responses
        issues = [Issue(str(error), "too_many", f"more than {max_rows} elements, or too many bytes")]
        raise Problem("too-large", f"A request may have {max_rows} responses and as many references.", issues) from None


def not_json(body: bytes | bytearray) -> Problem:
    return Problem("not-json", "The body is not JSON in UTF-8.", [Issue("body", "not_json", first_error(body))])


MAX_REPARSED_BYTES = 1 << 20
"""Maximum bytes of a body that is parsed again to locate an error: objects take many times the memory of the text."""


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
    check_containers(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise not_json(body) from None


def check_containers(text: bytes | bytearray) -> None:
    """Raise Problem `too-large` if the objects of a JSON text would take too much memory."""
    if has_too_many_containers(text):
        issue = Issue("body", "too_many", f"more than one array or object per {MIN_CONTAINER_BYTES} bytes")
        raise Problem("too-large", "The body has too many arrays and objects for its length.", [issue])


def read_batch(envelope: Envelope, scorer: Scorer, limits: RequestLimits) -> Batch:
    """Return a request as a batch; raise Problem `too-large` as `check_work` does."""
    values, issues = envelope.values, envelope_issues(envelope)
    invalid = {issue.path for issue in issues}
    batch = Batch(
        responses=envelope.responses,
        references=envelope.references,
        configurations={"config": scorer.columns},
        advantages="include" not in invalid and "advantages" in values.get("include", ()),
        steps="include" not in invalid and "steps" in values.get("include", ()),
        max_reference_bytes=limits.max_reference_bytes,
        issues=issues + response_issues(envelope),
    )
    read_labels(batch)
    if "task" in invalid:
        batch.task = None
    elif set_tasks(batch, values.get("task", SCORE)):
        if "task" not in values:
            follow_labels(batch)
        if "config" not in invalid:
            set_config(batch, scorer, values.get("config", {}))
        if "configs" in values:
            set_configs(batch, scorer, values["configs"], invalid)
    if "reference_index" not in invalid:
        batch.set_index(values.get("reference_index"))
    if "groups" not in invalid:
        batch.set_groups(values.get("groups"))
    check_work(batch, limits.max_responses, limits.max_body_bytes)
    return batch


def set_configs(batch: Batch, scorer: Scorer, configs: Any, invalid: Collection[str]) -> None:
    """Set further configurations, which only SCORE has."""
    if batch.task != SCORE:
        batch.issues = [*(issue for issue in batch.issues if issue.path != NO_CONFIGS.path), NO_CONFIGS]
        return
    if "configs" not in invalid:
        scorers, issues = issues_of(overridden_by_each, scorer.with_overrides, configs)
        batch.issues += issues
        batch.configurations |= {f"configs[{k}]": each.columns for k, each in enumerate(scorers or ())}


class Answer(NamedTuple):
    """The bytes of a reply, and the scores to count; after the fast path, these are valid until the next request."""

    body: bytes
    scores: Scores
    cut_off: int
    """The number of responses to SCORE that are cut off."""


def encode_reply(batch: Batch, include: Collection[str], scores: Scores) -> bytes:
    """Return the bytes of the reply to a batch; raise ArithmeticError if a number is not finite."""
    further = list(batch.configurations.values())[1:]
    configs = [(each, scorer.identity) for each, scorer in zip(scores.configs, further, strict=True)]
    return encode(scores, identity_of(batch), "components" in include, "advantages" in include, configs)


def encode(
    scores: Scores,
    identity: Mapping[str, str],
    components: bool,
    advantages: bool,
    configs: Sequence[tuple[Scores, Mapping[str, str]]] = (),
) -> bytes:
    """Return the bytes of the reply, with the optional columns that are True; raise ArithmeticError if not finite.

    identity: `config_id` and `signature`. configs: the scores by further configurations, with their identities. Their
    steps lack what they share with the steps of `scores`: places and coverage, if both read the texts alike.
    """
    reply = reply_columns(scores, components, advantages) | dict(identity)
    if configs:
        reply["configs"] = [
            {**config_identity, **reply_columns(each, components, advantages, scores.steps)}
            for each, config_identity in configs
        ]
    body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body:  # orjson encodes NaN and infinities as null, which no reply contains otherwise
        raise ArithmeticError("a result is not a finite number")
    return body


MAX_LIST_ROWS = 64
"""Rows up to which lists are encoded faster than arrays."""


def reply_columns(
    scores: Scores, components: bool, advantages: bool, sent_steps: StepTable | None = None
) -> dict[str, Any]:
    """Return the columns of a reply; `sent_steps` are steps that are elsewhere in it."""
    encodable: Callable[[np.ndarray], Any] = np.asarray
    if len(scores) <= MAX_LIST_ROWS:
        encodable = np.ndarray.tolist
    reasons = [*map(REASONS.__getitem__, scores.reason_codes.tolist())] if scores.is_score else scores.reasons.tolist()
    columns: dict[str, Any] = {"rewards": encodable(scores.rewards), "reasons": reasons}
    if scores.steps is not None and scores.alternative is not None:
        columns["steps"] = orjson.Fragment(encode_steps(scores.steps, sent_steps))
        columns["alternative"] = encodable(scores.alternative)
    if components:
        columns["components"] = {name: encodable(column) for name, column in scores.components.items()}
    if advantages:
        columns["advantages"] = encodable(scores.advantages())
    return columns


def encode_steps(steps: StepTable, sent: StepTable | None = None) -> bytes:
    """Return the steps of all responses as JSON: an array of arrays of objects, without the places and the coverages
    that they share with steps that are `sent` elsewhere.
    """
    columns = steps.columns
    is_sent = sent is not None and sent.columns.spans is columns.spans
    coverages, values = (orjson.dumps(column, option=orjson.OPT_SERIALIZE_NUMPY) for column in columns[2:5:2])
    size = STEP_ROOM * len(columns.coverages) + ROW_ROOM * (len(steps) + 1) + len(coverages) + len(values)
    text, spans = np.empty(size, np.uint8), columns.spans[:0] if is_sent else columns.spans
    floats = [frozen(np.frombuffer(column, np.uint8), np.uint8) for column in (coverages, values)]
    ints = [frozen(column, np.int64) for column in (columns.counts, spans, columns.references)]
    end = write_steps(text, *ints, *floats)
    return text[:end].tobytes()

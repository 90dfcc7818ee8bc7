"""Decodes JSON requests to columns, and encodes result columns as JSON replies."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.status import REASONS
from ...errors import Issue
from ...rewards.batch import Batch
from ...rewards.registry import SCORE, identity_of, set_tasks
from ...rewards.scorer import Scorer, set_config
from ...rewards.scores import Scores
from ...scoring.column_scorer import READING
from ...scoring.configurations import by_reading, overridden_by_each
from .envelope import Envelope, NotJsonError, TooManyError, open_envelope
from .problems import Problem
from .validation import element_issues, envelope_issues, issues_of

__all__ = [
    "Answer",
    "Limits",
    "check_containers",
    "encode",
    "encode_reply",
    "json_document",
    "parse_envelope",
    "read_batch",
]

MAX_LIST_ROWS = 64
"""Rows up to which lists are encoded faster than arrays."""

MAX_REPARSED_BYTES = 1 << 20
"""Maximum bytes of a body that is parsed again to locate an error: objects take many times the memory of the text."""

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
    check_containers(body)
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if error.msg.startswith("Not enough memory"):
            raise MemoryError from None
        raise not_json(body) from None


def check_containers(text: bytes | bytearray) -> None:
    """Raise Problem `too-large` if the objects of a JSON text would take too much memory."""
    containers = text.count(b"[") + text.count(b"{")
    if containers > FREE_CONTAINERS + len(text) // MIN_CONTAINER_BYTES:
        issue = Issue("body", "too_many", f"more than one array or object per {MIN_CONTAINER_BYTES} bytes")
        raise Problem("too-large", "The body has too many arrays and objects for its length.", [issue])


def read_batch(envelope: Envelope, scorer: Scorer, limits: Limits) -> Batch:
    """Return a request as a batch; raise Problem `too-large` if it is too much for its `configs`."""
    values, issues = envelope.values, envelope_issues(envelope)
    invalid = {issue.path for issue in issues}
    batch = Batch(
        responses=envelope.responses,
        references=envelope.references,
        kinds=envelope.reference_kinds,
        configurations={"config": scorer.columns},
        advantages="include" not in invalid and "advantages" in values.get("include", ()),
        max_reference_bytes=limits.max_reference_bytes,
        issues=issues + element_issues(envelope, "responses"),
    )
    if "task" in invalid:
        batch.task = None
    elif set_tasks(batch, values.get("task", SCORE)):
        if "config" not in invalid:
            set_config(batch, scorer, values.get("config", {}))
        if "configs" in values:
            set_configs(batch, scorer, values["configs"], invalid, limits)
    if "reference_index" not in invalid:
        batch.set_index(values.get("reference_index"), "must be a 64-bit integer")
    if "groups" not in invalid:
        batch.set_groups(values.get("groups"))
    return batch


def set_configs(batch: Batch, scorer: Scorer, configs: Any, invalid: Collection[str], limits: Limits) -> None:
    """Set further configurations, which only SCORE has; raise Problem `too-large`."""
    if batch.task != SCORE:
        detail = "this field is only for the task score: it has settings of SCORE"
        batch.issues = [issue for issue in batch.issues if issue.path != "configs"]
        batch.issues.append(Issue("configs", "unknown_field", detail))
        return
    if "configs" not in invalid:
        check_results(batch.size, len(configs), limits.max_responses)
        scorers, issues = issues_of(overridden_by_each, scorer.with_overrides, configs)
        batch.issues += issues
        batch.configurations |= {f"configs[{k}]": each.columns for k, each in enumerate(scorers or ())}
    check_readings(batch, limits.max_body_bytes)


def check_results(responses: int, configs: int, max_responses: int) -> None:
    if responses * configs > max_responses:
        issue = Issue("configs", "too_many", f"{responses} responses by {configs} configurations")
        detail = f"A response counts once for each of `configs`, and a request may have {max_responses} responses."
        raise Problem("too-large", detail, [issue])


def check_readings(batch: Batch, max_bytes: int) -> None:
    readings = len(by_reading([scorer.settings for scorer in batch.configurations.values()]))
    columns = batch.references, batch.responses
    nbytes = sum(int(column.lengths.sum()) for column in columns if isinstance(column, TextColumn))
    if readings > 1 and readings * nbytes > max_bytes:
        issue = Issue("configs", "too_many", f"{nbytes} bytes of text, to be read {readings} times")
        detail = f"Texts count once for each combination of {', '.join(READING)}, up to {max_bytes} bytes."
        raise Problem("too-large", detail, [issue])


def encode_reply(batch: Batch, scores: Scores, include: Collection[str]) -> bytes:
    """Return the bytes of the reply to a batch; raise ArithmeticError if a number is not finite."""
    further = list(batch.configurations.values())[1:]
    configs = [(each, scorer.identity) for each, scorer in zip(scores.configs, further, strict=True)]
    return encode(scores, identity_of(batch), "components" in include, "advantages" in include, configs)


class Answer(NamedTuple):
    """The bytes of a reply, and the scores to count; after the fast path, these are valid until the next request."""

    body: bytes
    scores: Scores


def encode(
    scores: Scores,
    identity: Mapping[str, str],
    components: bool,
    advantages: bool,
    configs: Sequence[tuple[Scores, Mapping[str, str]]] = (),
) -> bytes:
    """Return the bytes of the reply, with the optional columns that are True; raise ArithmeticError if not finite.

    identity: `config_id` and `signature`. configs: the scores by further configurations, with their identities.
    """
    reply = reply_columns(scores, components, advantages) | dict(identity)
    if configs:
        reply["configs"] = [{**own, **reply_columns(each, components, advantages)} for each, own in configs]
    body = orjson.dumps(reply, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" in body:  # orjson encodes NaN and infinities as null, which no reply contains otherwise
        raise ArithmeticError("a result is not a finite number")
    return body


def reply_columns(scores: Scores, components: bool, advantages: bool) -> dict[str, Any]:
    as_lists = len(scores) <= MAX_LIST_ROWS
    names = REASONS if scores.is_score else None
    reasons = scores.reasons.tolist() if names is None else [names[code] for code in scores.reason_codes.tolist()]

    def encodable(column: np.ndarray) -> Any:
        return column.tolist() if as_lists else column

    columns: dict[str, Any] = {"rewards": encodable(scores.rewards), "reasons": reasons}
    if components:
        columns["components"] = {name: encodable(column) for name, column in scores.components.items()}
    if advantages:
        columns["advantages"] = encodable(scores.advantages())
    return columns

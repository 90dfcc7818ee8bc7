"""Decodes JSON requests to columns, and encodes result columns as JSON replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from ....kernels.column import TextColumn
from ....kernels.status import REASONS
from ...errors import InvalidRequest, Issue
from ...evaluate.task_rewards import TaskScores
from ...scoring.column_scorer import READING
from ...scoring.configurations import by_reading, issues_under_all, overridden_by_each, score_together
from ...scoring.references import issues_of_all
from ...scoring.scorer import Scorer
from ...scoring.scores import Scores
from .envelope import Envelope, NotJsonError, TooManyError, open_envelope
from .problems import Problem
from .validation import element_issues, envelope_issues, issues_of, read_index

__all__ = [
    "Answer",
    "Batch",
    "Limits",
    "check_containers",
    "decode_score_request",
    "encode",
    "json_document",
    "parse_envelope",
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


@dataclass(frozen=True, slots=True)
class Batch:
    """A decoded request, with the columns of its reply."""

    responses: TextColumn
    references: TextColumn
    reference_index: np.ndarray
    """int64, one per response."""
    groups: np.ndarray | None
    """int64, one per response, or None without groups."""
    scorer: Scorer
    configs: list[Scorer]
    """Further configurations to score the responses by."""
    max_reference_bytes: int
    components: bool
    advantages: bool

    def score(self) -> list[Scores]:
        """Return the scores by `scorer` and by each of `configs`; raise InvalidReference with every invalid one."""
        columns = self.responses, self.references, self.reference_index, self.max_reference_bytes
        if self.configs:
            settings = [scorer.settings for scorer in (self.scorer, *self.configs)]
            names = names_of(self.configs)
            scores = score_together(settings, self.scorer.threads, lambda each: each.score_columns(*columns), names)
        else:
            scores = [self.scorer.score_columns(*columns)]
        for each in scores:
            each.groups = self.groups
        return scores

    def encode(self, scores: Sequence[Scores]) -> bytes:
        """Return the bytes of the reply with what `score` has returned; raise ArithmeticError if not finite."""
        own, *others = scores
        configs = [(each, scorer.identity) for each, scorer in zip(others, self.configs, strict=True)]
        return encode(own, self.scorer.identity, self.components, self.advantages, configs)


def names_of(configs: Sequence[Scorer]) -> list[str]:
    """Return what errors call the configuration of a request and its further `configs`."""
    return ["config", *(f"configs[{k}]" for k in range(len(configs)))]


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


def decode_score_request(envelope: Envelope, scorer: Scorer, limits: Limits) -> Batch:
    """Return the columns of a request.

    Raise InvalidRequest with every issue, in the order: fields, config, configs, references, responses, index,
    advantages; and Problem `too-large` if `configs` multiplies the responses beyond their limit.
    """
    values = envelope.values
    issues = envelope_issues(envelope)
    if not envelope.is_object:
        raise InvalidRequest(issues)
    invalid = {issue.path for issue in issues}
    configs: list[Scorer] = []
    further: list[Issue] = []
    if "configs" in values and "configs" not in invalid:
        check_results(envelope, limits.max_responses)
        overridden, further = issues_of(overridden_by_each, scorer.with_overrides, values["configs"])
        configs = overridden or []
    if "config" in values and "config" not in invalid:
        overridden, found = issues_of(scorer.with_overrides, values["config"])
        scorer = overridden or scorer
        issues += found
    issues += further
    check_readings(envelope, [scorer, *configs], limits.max_body_bytes)
    index, groups, index_issues = read_index(envelope, invalid, limits.max_responses)
    references, responses = envelope.references, envelope.responses
    if issues or envelope.invalid_rows or index_issues or references is None or responses is None or index is None:
        malformed = element_issues(envelope, "references")
        if references is not None:
            find = partial(issues_of_all, references, malformed, max_bytes=limits.max_reference_bytes)
            steps = [each.settings.max_steps for each in (scorer, *configs)]
            issues += issues_under_all(find, steps, names_of(configs))
        raise InvalidRequest(issues + element_issues(envelope, "responses") + index_issues)
    include = values.get("include", ())
    wanted = "components" in include, "advantages" in include
    return Batch(responses, references, index, groups, scorer, configs, limits.max_reference_bytes, *wanted)


def check_results(envelope: Envelope, max_responses: int) -> None:
    """Raise Problem `too-large` if there are too many responses for as many `configs`."""
    configs, responses = len(envelope.values["configs"]), envelope.responses
    if responses is not None and responses.rows * configs > max_responses:
        issue = Issue("configs", "too_many", f"{responses.rows} responses by {configs} configurations")
        detail = f"A response counts once for each of `configs`, and a request may have {max_responses} responses."
        raise Problem("too-large", detail, [issue])


def check_readings(envelope: Envelope, scorers: Sequence[Scorer], max_bytes: int) -> None:
    """Raise Problem `too-large` if the texts are too long to be read as often as the configurations require."""
    readings = len(by_reading([scorer.settings for scorer in scorers]))
    columns = envelope.references, envelope.responses
    nbytes = sum(int(column.lengths.sum()) for column in columns if column is not None)
    if readings > 1 and readings * nbytes > max_bytes:
        issue = Issue("configs", "too_many", f"{nbytes} bytes of text, to be read {readings} times")
        detail = f"Texts count once for each combination of {', '.join(READING)}, up to {max_bytes} bytes."
        raise Problem("too-large", detail, [issue])


class Answer(NamedTuple):
    """The bytes of a reply, and the scores that the metrics count.

    The scores of one response that took the fast path are valid until the next request.
    """

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
    """Return the columns of a reply in types that orjson encodes."""
    as_lists = len(scores) <= MAX_LIST_ROWS
    mixed = isinstance(scores, TaskScores)
    reasons = scores.reasons.tolist() if mixed else [REASONS[code] for code in scores.reason_codes.tolist()]

    def encodable(column: np.ndarray) -> Any:
        return column.tolist() if as_lists else column

    columns: dict[str, Any] = {"rewards": encodable(scores.rewards), "reasons": reasons}
    if components:
        columns["components"] = {name: encodable(column) for name, column in scores.components.items()}
    if advantages:
        columns["advantages"] = encodable(scores.advantages())
    return columns

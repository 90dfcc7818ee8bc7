"""Results of scoring: columns for a batch, one row for a single response."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import repeat
from math import isfinite
from typing import Any, NamedTuple

from .errors import AssayError, BadReply, InvalidRequest, Issue, ServiceError, TooLarge, Unauthorized, invalid
from .requests import EncodedRequest, loads
from .steps import Step, read_steps
from .tasks import OUT_OF_TIME, REWARD_TASKS, SCORE, TASK_REASONS, components_of, has_passed


class Score(NamedTuple):
    """The finite reward of one response, with its reason and components."""

    reward: float
    reason: str
    """`ok`, or why the response could not be scored."""
    components: Mapping[str, float]
    config_id: str
    """Digest of the configuration and the version of the scoring rules."""
    signature: str = ""
    """The same in one readable line, to be quoted beside the reward; empty if the service is of a version before it."""
    task: str = SCORE
    steps: list[Step] | None = None
    """The steps of the response; empty if it could not be read; None unless requested."""
    alternative: int | None = None
    """The alternative of the reference that counted, 0 if it has none; None unless steps are requested."""

    @property
    def reason_code(self) -> int:
        """Index in the task's `TASK_REASONS`; -1 for a reason unknown to this version of the client."""
        return reason_code(self.task, self.reason)

    @property
    def task_code(self) -> int:
        """Index in `REWARD_TASKS`."""
        return REWARD_TASKS.index(self.task)

    @property
    def passed(self) -> float:
        """1 if the response passes: in SCORE both gates, with the right order of actions; else 0."""
        return has_passed(self.task, self.components)


@dataclass(frozen=True)
class Scores:
    """Columns with one finite entry per response, in the order of the responses."""

    rewards: list[float]
    reasons: list[str]
    components: dict[str, list[float]] | None
    """By name; None unless requested."""
    advantages: list[float] | None
    """Group advantages; None unless requested."""
    config_id: str
    request_id: str
    _: KW_ONLY
    signature: str = ""
    """The configuration in one readable line, to be quoted beside the rewards."""
    tasks: list[str] = field(default_factory=list)
    """The task of each response; all of them SCORE if left out."""
    steps: list[list[Step]] | None = None
    """The steps of each response, an empty list for one that could not be read; None unless requested."""
    alternative: list[int] | None = None
    """The alternative of the reference that counted, 0 for a reference without; None unless steps are requested."""

    def __post_init__(self) -> None:
        if not self.tasks:
            object.__setattr__(self, "tasks", [SCORE] * len(self.rewards))

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        if not self.rewards:
            return "Scores(0 responses)"
        reasons = ", ".join(f"{reason} {n}" for reason, n in Counter(self.reasons).most_common())
        return f"Scores({len(self)} responses, mean reward {sum(self.rewards) / len(self):.4f}; {reasons})"

    @property
    def reason_codes(self) -> list[int]:
        """Index of each reason in the `TASK_REASONS` of its task; -1 for one unknown to this version of the client."""
        return [reason_code(task, reason) for task, reason in zip(self.tasks, self.reasons, strict=True)]

    @property
    def task_codes(self) -> list[int]:
        """Index of each task in `REWARD_TASKS`."""
        return list(map(REWARD_TASKS.index, self.tasks))

    @property
    def passed(self) -> list[float]:
        """1 for each response that passes, else 0 (see `Score.passed`); raise ValueError without components."""
        if self.components is None:
            raise ValueError('`passed` is computed from the components: include="components"')
        return [row.passed for row in self.rows()]

    def row(self, k: int) -> Score:
        """Return the score of response `k`."""
        components = {name: column[k] for name, column in (self.components or {}).items()}
        steps = None if self.steps is None else self.steps[k]
        alternative = None if self.alternative is None else self.alternative[k]
        about = self.config_id, self.signature, self.tasks[k], steps, alternative
        return Score(self.rewards[k], self.reasons[k], components, *about)

    def rows(self) -> Iterator[Score]:
        """Yield the score of every response: faster than `row` for each."""
        names, columns = tuple(self.components or ()), tuple((self.components or {}).values())
        numbers: Iterator[tuple[float, ...]] = zip(*columns, strict=True) if columns else repeat(())
        details = zip(self.tasks, self.steps or repeat(None), self.alternative or repeat(None), strict=False)
        for reward, reason, values, about in zip(self.rewards, self.reasons, numbers, details, strict=False):
            components = dict(zip(names, values, strict=True))
            yield Score(reward, reason, components, self.config_id, self.signature, *about)


def scores_of(rows: Sequence[Score]) -> Scores:
    """Return the columns of scores from one request or several; a component that one of them lacks is 0."""
    names = dict.fromkeys(name for row in rows for name in row.components)
    components = {name: [row.components.get(name, 0.0) for row in rows] for name in names}
    columns = [row.reward for row in rows], [row.reason for row in rows], components
    config_id, signature = (rows[0].config_id, rows[0].signature) if rows else ("", "")
    steps = [row.steps for row in rows if row.steps is not None]
    alternative = [row.alternative for row in rows if row.alternative is not None]
    has_steps = bool(rows) and len(steps) == len(alternative) == len(rows)
    more: dict[str, Any] = {"steps": steps, "alternative": alternative} if has_steps else {}
    return Scores(*columns, None, config_id, "", signature=signature, tasks=[row.task for row in rows], **more)


def reason_code(task: str, reason: str) -> int:
    reasons = TASK_REASONS[task]
    return reasons.index(reason) if reason in reasons else -1


REASON = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of reasons, also of reasons that only a newer service has."""

MAX_FLOAT = sys.float_info.max
MAX_DETAIL = 500


class HttpReply(NamedTuple):
    """A complete HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
    origin: str = ""
    """Where it comes from, for messages."""

    @property
    def request_id(self) -> str:
        return self.headers.get("x-request-id", "")


class ScoreReplies:
    """Collects the replies to a request: several if the service had no time left for some responses.

    Such a response is sent again, in a request of its own kind, and never has a reward before that is answered.

    request: the whole request, and then what is to be sent next.
    receive: is given position and score of the responses that have a reward while others have none yet.
    """

    def __init__(self, request: EncodedRequest, receive: Callable[[int, Score], None] | None = None) -> None:
        self.request = self._whole = request
        self.scores: Scores | None = None
        self._receive = receive

    def add(self, reply: HttpReply) -> str | None:
        """Read a reply; return why another request is needed, else None; raise as `read_scores`."""
        scores = read_scores(reply, self.request)
        rows = self.request.rows or range(self.request.responses)
        if self.scores is None:
            self.scores = scores
        elif not merge(self.scores, scores, rows):
            self.request, self.scores = self._whole, None
            return "its configuration or version has changed between two replies to a request"
        late = [k for k, reason in zip(rows, scores.reasons, strict=True) if reason == OUT_OF_TIME]
        if not late:
            return None
        if self._receive is not None:
            for k, score in zip(rows, scores.rows(), strict=True):
                if score.reason != OUT_OF_TIME:
                    self._receive(k, score)
        self.request = self._whole.part(self._whole.members_of_groups(late))
        return f"no time was left for {len(late)} of {len(rows)} responses"


def merge(scores: Scores, part: Scores, rows: Sequence[int]) -> bool:
    """Replace the scores of some rows; return False if they are of another configuration or version."""
    components, part_components = scores.components or {}, part.components or {}
    origin = scores.config_id, scores.signature, components.keys()
    if origin != (part.config_id, part.signature, part_components.keys()):
        return False
    columns: list[tuple[list[Any], list[Any]]] = [(scores.rewards, part.rewards), (scores.reasons, part.reasons)]
    columns += [(components[name], part_components[name]) for name in components]
    for whole, other in (
        (scores.advantages, part.advantages),
        (scores.steps, part.steps),
        (scores.alternative, part.alternative),
    ):
        if whole is not None and other is not None:
            columns.append((whole, other))
    for column, values in columns:
        for k, value in zip(rows, values, strict=True):
            column[k] = value
    return True


def read_scores(reply: HttpReply, request: EncodedRequest) -> Scores:
    """Return the scores of a reply; raise the error it reports, or BadReply if a column is invalid."""
    document = read_document(reply, request)
    n = request.responses
    components = advantages = steps = alternative = None
    try:
        reasons = read_column(document, "reasons", n)
        if not set(map(type, reasons)) <= {str} or not all(map(REASON.fullmatch, set(reasons))):
            raise ValueError("`reasons` has an entry that is not the name of a reason")
        config_id = document.get("config_id")
        if not isinstance(config_id, str):
            raise ValueError("`config_id` is missing")
        signature = document.get("signature", "")
        if not isinstance(signature, str):
            raise ValueError("`signature` is not a string")
        if "components" in request.include:
            columns = document.get("components")
            if not isinstance(columns, dict):
                raise ValueError("`components` is not an object")
            if missing := [name for name in components_of(request.task) if name not in columns]:
                raise ValueError(f"`components` lacks {', '.join(missing)}: is the service older than this client?")
            components = {name: read_numbers(columns, name, n) for name in columns}
        if "advantages" in request.include:
            advantages = read_numbers(document, "advantages", n)
        if "steps" in request.include:
            steps = read_steps(read_column(document, "steps", n), request.texts)
            alternative = read_column(document, "alternative", n)
            if not all(type(number) is int and number >= 0 for number in alternative):
                raise ValueError("`alternative` has an entry that is not the number of an alternative")
        rewards = read_numbers(document, "rewards", n)
    except ValueError as error:
        raise bad_reply(str(error), reply) from None
    columns = rewards, list(reasons), components, advantages
    more: dict[str, Any] = {"signature": signature, "steps": steps, "alternative": alternative}
    return Scores(*columns, config_id, reply.request_id, tasks=request.tasks, **more)


def read_document(reply: HttpReply, request: EncodedRequest | None = None) -> dict[str, Any]:
    """Return the JSON object of a reply with status 200; raise the error that any other reply reports."""
    if reply.status != 200:
        raise error_of(reply, request)
    try:
        document = loads(reply.body)
    except ValueError:
        raise bad_reply(f"it is {'an HTML page' if is_html(reply) else 'not JSON'}", reply) from None
    if not isinstance(document, dict):
        raise bad_reply("it is not an object", reply)
    return document


def read_column(document: dict[str, Any], name: str, n: int) -> list[Any]:
    values = document.get(name)
    if not isinstance(values, list):
        raise ValueError(f"`{name}` is missing")
    if len(values) != n:
        raise ValueError(f"`{name}` has {len(values)} entries for {n} responses")
    return values


def read_numbers(document: dict[str, Any], name: str, n: int) -> list[float]:
    values = read_column(document, name, n)
    if set(map(type, values)) <= {float} and all(map(isfinite, values)):
        return values  # fast path: columns are long and nearly always valid
    for k, value in enumerate(values):
        if type(value) not in (float, int) or not abs(value) <= MAX_FLOAT:
            raise ValueError(f"`{name}[{k}]` is not a finite number")
    return [float(value) for value in values]


def bad_reply(what: str, reply: HttpReply) -> BadReply:
    message = f"invalid reply{source_of(reply)}: {what}"
    return BadReply(message, status=reply.status, request_id=reply.request_id)


def source_of(reply: HttpReply) -> str:
    return f" from {reply.origin}" if reply.origin else ""


def error_of(reply: HttpReply, request: EncodedRequest | None = None) -> AssayError:
    document = document_of(reply)
    issues = issues_of(document)
    if request is not None:
        issues = request.in_caller_terms(issues)
    detail = str(document.get("detail") or document.get("title") or foreign_detail(reply))[:MAX_DETAIL]
    message = f"HTTP {reply.status}{source_of(reply)}: {detail}"
    origin: dict[str, Any] = {"status": reply.status, "request_id": reply.request_id}
    if reply.status in (401, 403):
        return Unauthorized(message, **origin)
    if reply.status == 413:
        return TooLarge(message, issues=issues, **origin)
    if 400 <= reply.status < 500:
        return invalid(issues, **origin) if issues else InvalidRequest(message, **origin)
    if reply.status >= 500:
        return ServiceError(message, **origin)
    return BadReply(f"HTTP {reply.status}{source_of(reply)} is not a reply of an Assay service", **origin)


def foreign_detail(reply: HttpReply) -> str:
    if reply.status == 400 and b"HTTPS" in reply.body:  # as nginx, Apache and Go say
        return "the port speaks TLS: use https:// instead of http://"
    form = "an HTML page" if is_html(reply) else "no details"
    return f"{form}; the reply is not of an Assay service but perhaps of a proxy in front of it"


def is_html(reply: HttpReply) -> bool:
    return "html" in reply.headers.get("content-type", "").lower() or reply.body.lstrip()[:1] == b"<"


def document_of(reply: HttpReply) -> dict[str, Any]:
    """Return the object of a reply, such as a problem document (RFC 9457); empty if it has none, such as a proxy's."""
    try:
        document = loads(reply.body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def issues_of(document: dict[str, Any]) -> list[Issue]:
    errors = document.get("errors")
    entries = [entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else []
    return [Issue(*(str(entry.get(name)) for name in ("path", "reason", "detail"))) for entry in entries]

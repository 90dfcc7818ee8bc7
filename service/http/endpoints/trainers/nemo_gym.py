"""/compat/nemo-gym: a resources server of NeMo Gym, for verifiers, axolotl and NeMo RL too.

Its statistics of a run are in `aggregate.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal

import orjson
from pydantic import Field

from ....errors import Issue
from ....rewards.scores import Scores
from ...request.exchange import Exchange
from ...request.paths import Paths
from ...wire.compression import Body
from ...wire.json_codec import Limits
from .dialect import Dialect, RouteOptions, Texts, native_request, read_pair
from .json_document import ABSENT, Document, MemberNames, PythonReader, ValueSpan
from .reply_numbers import IDENTIFIERS, NUMBERS, TASK_NUMBERS, reply_of_one

__all__ = ["NemoGym", "NemoGymOptions", "Sessions", "output_text"]

PARAMETERS, RESPONSE, REFERENCE = range(3)
RESPONSE_NAMES = MemberNames("output")
ITEM_NAMES = MemberNames("type", "role", "content", "summary")
PART_NAMES = MemberNames("type", "text")
SESSION_ID = "resources_session_id"
SESSION_NAMES = MemberNames(SESSION_ID)
NO_STATE = b"{}"

BAD_REFERENCE = "assay:bad_reference"
"""Gym requires the form `SERVER:KIND` for kinds of failure outside its own list."""

MASK = ("mask_sample", "failure_kind", "failure_reason", "instance_config")
"""Members of a masked rollout's reply."""

RESERVED = frozenset({"responses_create_params", "response", "reward", *MASK})
RESERVED_PREFIXES = ("score_", "_")
"""Fields of a row with these names are not echoed: they are the reply's own, or Gym's, and may be from an old reply."""

MAX_ROW_BYTES = 1 << 20
"""Maximum bytes of a row without prompt, response and reference; of a longer row no other field is echoed."""

MAX_FIELDS = 64
MAX_FIELD_LENGTH = 1_024
"""Limits of the echoed fields: their number, and the characters of a name or a text."""


class NemoGymOptions(RouteOptions):
    """Where to find the reference, and how to answer for an invalid one."""

    reference_field: str = Field(
        "reference", min_length=1, description="The row's field with the reference; `a.b` is the field b of a."
    )
    on_bad_reference: Literal["error", "mask"] = Field(
        "error",
        description="How to answer for a missing or invalid reference: with an error (422), or with `mask_sample`, "
        "which makes NeMo Gym 0.7 and NeMo RL skip the row. Do not mask for clients that read only `reward`.",
    )

    @property
    def outer_field(self) -> str:
        """Return the row's field that is the reference, or holds it."""
        return self.reference_field.partition(".")[0]


class NemoGym(Dialect):
    """A data-set row plus the model's output; prompt and output are echoed unchanged, and scalar fields of the row."""

    options = NemoGymOptions
    fields = ("responses_create_params", "response")

    def names(self, options: NemoGymOptions) -> MemberNames:
        return MemberNames(*self.fields, options.outer_field)

    def label(self, document: Document, options: NemoGymOptions) -> ValueSpan:
        nested = options.reference_field.split(".")[1:]
        return document.follow(document.spans[REFERENCE], list(map(MemberNames, nested)))

    def native(self, document: Document, options: NemoGymOptions) -> bytes | None:
        reference = self.label(document, options)
        text, issues = output_text(PythonReader, document.value(document.spans[RESPONSE]))
        if issues or reference == ABSENT or not document.is_object(document.spans[PARAMETERS]):
            return None
        return native_request(document.raw(reference), orjson.dumps(text))

    def texts(self, document: Document, options: NemoGymOptions, limits: Limits) -> Texts:
        issues = self.missing_fields(document)
        if document.spans[PARAMETERS] != ABSENT and not document.is_object(document.spans[PARAMETERS]):
            issues.append(Issue(self.fields[PARAMETERS], "wrong_type", "must be an object"))
        text = ""
        if document.spans[RESPONSE] != ABSENT:
            text, found = output_text(document, document.spans[RESPONSE])
            issues += found
        reference = self.label(document, options)
        read = read_pair(document.raw(reference), orjson.dumps(text), "response", limits)._replace(issues=issues)
        return read._replace(reference_issues=[MISSING]) if reference == ABSENT else read

    def reference_path(self, options: NemoGymOptions) -> str:
        return options.reference_field

    def encode(self, scores: Scores, document: Document, options: NemoGymOptions) -> bytes:
        return echoed(document, options, reply_of_one(scores, options.names_tasks))

    def masked(self, issues: Sequence[Issue], document: Document, options: NemoGymOptions) -> bytes | None:
        if options.on_bad_reference == "error":
            return None
        reason = "; ".join(f"{issue.path}: {issue.detail} ({issue.reason})" for issue in issues)
        # Gym's models require a number as the reward, and look for the mask at the top level. NeMo RL takes the names
        # of numbers from a group's first reply, and looks for the mask in `instance_config`.
        mask = dict(zip(MASK, (True, BAD_REFERENCE, reason, {"mask_sample": True}), strict=True))
        names = TASK_NUMBERS if options.names_tasks else NUMBERS
        numbers = {"reward": 0.0, **dict.fromkeys(names, 0.0), **dict.fromkeys(IDENTIFIERS, -1.0)}
        return echoed(document, options, orjson.dumps(numbers | mask))


MISSING = Issue("references[0]", "missing_field", "the row's reference; `reference_field` names another field")


def echoed(document: Document, options: NemoGymOptions, members: bytes) -> bytes:
    """Return the reply: the echoed fields, then the members of this JSON object."""
    parameters, response = document.raw(document.spans[PARAMETERS]), document.raw(document.spans[RESPONSE])
    fields = dict(islice(fields_of_row(document, options), MAX_FIELDS))
    others = b"," + orjson.dumps(fields)[1:-1] if fields else b""
    return b'{"responses_create_params":%b,"response":%b%b,%b' % (parameters, response, others, members[1:])


def fields_of_row(document: Document, options: NemoGymOptions) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each field that is echoed: texts, numbers and truth values, such as id and task.

    A row with a number that no double can represent has none.
    """
    large = sorted({span for span in document.spans if span != ABSENT})
    if len(document.body) - sum(stop - start for start, stop in large) > MAX_ROW_BYTES:
        return
    ends = [0, *(stop for _, stop in large)]
    starts = [*(start for start, _ in large), len(document.body)]
    try:
        row = orjson.loads(b"null".join(document.body[end:start] for end, start in zip(ends, starts, strict=True)))
    except orjson.JSONDecodeError:
        return
    for name, value in row.items():
        is_own = name in RESERVED or name == options.outer_field or name.startswith(RESERVED_PREFIXES)
        is_scalar = isinstance(value, str | float | int)  # a bool is an int
        is_short = len(name) <= MAX_FIELD_LENGTH and (type(value) is not str or len(value) <= MAX_FIELD_LENGTH)
        if is_scalar and is_short and not is_own:
            yield name, value


def output_text(reader: Document | type[PythonReader], response: Any) -> tuple[str, list[Issue]]:
    """Return the concatenated text parts of the assistant's messages, and every issue.

    `response` is a span of a document or a Python object. Reasoning that a parser has separated from the text is put
    back between <think> and </think>. Items and parts of other types (tool calls and results, refusals) are ignored.
    """
    members = reader.members(response, RESPONSE_NAMES)
    if members is None:
        return "", [Issue("response", "wrong_type", "must be an object")]
    items = reader.elements(members[0], "response.output")
    if items is None:
        return "", [Issue("response.output", "wrong_type", "must be an array")]
    texts: list[str] = []
    issues: list[Issue] = []
    for k, item in enumerate(items):
        path = f"response.output[{k}]"
        found = reader.members(item, ITEM_NAMES)
        if found is None:
            issues.append(Issue(path, "wrong_type", "must be an object"))
            continue
        kind, role, content, summary = found
        if reader.text(kind) == "reasoning":
            thoughts = parts_text(reader, summary, f"{path}.summary", ("summary_text",), issues)
            texts.append(f"<think>{thoughts}</think>")
        elif reader.text(kind) in ("message", None) and reader.text(role) in ("assistant", None):
            texts.append(parts_text(reader, content, f"{path}.content", ("output_text",), issues))
    return "".join(texts), issues


def parts_text(
    reader: Document | type[PythonReader], parts: Any, path: str, kinds: tuple[str, ...], issues: list[Issue]
) -> str:
    """Return the concatenated texts of the parts of these kinds; append errors to `issues`."""
    whole = reader.text(parts)
    if whole is not None:
        return whole
    elements = reader.elements(parts, path)
    if elements is None:
        issues.append(Issue(path, "wrong_type", "must be a string or an array of parts"))
        return ""
    texts = []
    for k, part in enumerate(elements):
        found = reader.members(part, PART_NAMES)
        if found is None:
            issues.append(Issue(f"{path}[{k}]", "wrong_type", "must be an object"))
        elif reader.text(found[0]) in kinds:
            text = reader.text(found[1])
            if text is None:
                issues.append(Issue(f"{path}[{k}].text", "wrong_type", "must be a string"))
            texts.append(text or "")
    return "".join(texts)


class Sessions:
    """Endpoints besides rewards: readiness, stateless sessions, and the reverify mode."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    async def alive(self, exchange: Exchange) -> None:
        """Return 200 once the service is ready to score, so that Gym sends no rollout too early."""
        _ = self._paths.scorer
        await exchange.reply(b'{"status":"ok"}')

    async def reverify_mode(self, exchange: Exchange) -> None:
        """Return `stateless`: rewards depend only on their request, so `gym eval reverify` may rescore rollouts."""
        await exchange.reply(b'"stateless"')

    async def session(self, exchange: Exchange) -> None:
        """Begin or close a rollout; sessions have no state, so there is nothing to do.

        Return the name of the session if the request has one (Gym's environment servers send one since 0.7).
        """
        body = exchange.request_body
        general = partial(confirmed, body, self._paths.limits)
        await exchange.reply(await self._paths.answer(exchange, lambda: None if body.data else NO_STATE, general))


def confirmed(body: Body, limits: Limits) -> bytes:
    """Return the bytes of the reply, with the session's name if it is a string; raise Problem."""
    document = Document(body.plain(limits.max_body_bytes), SESSION_NAMES)
    (span,) = document.spans
    if span == ABSENT or document.text(span) is None:
        return NO_STATE
    return b'{"%b":%b}' % (SESSION_ID.encode(), document.raw(span))

"""The interface of a trainer's dialect, and helpers that dialects share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from .....kernels.column import TextColumn
from ....errors import Issue
from ....rewards.registry import REWARD_TASKS
from ....rewards.scores import Scores
from ...wire.envelope import TooManyError, open_envelope
from ...wire.json_codec import Limits
from ...wire.problems import Problem
from ...wire.validation import element_issues
from .json_document import ABSENT, Document, MemberNames, ValueSpan

__all__ = [
    "Dialect",
    "RouteOptions",
    "Texts",
    "native_request",
    "read_column",
    "read_pair",
    "rename_paths",
]


class Texts(NamedTuple):
    """The rollouts of a request as columns; None for a column that could not be read, as `issues` report."""

    responses: TextColumn | None
    references: TextColumn | None
    issues: list[Issue]
    reference_issues: list[Issue]
    """Issues of references that are neither text nor steps, with paths `references[k]`."""
    reference_kinds: np.ndarray | None = None
    """As those of `Envelope`."""


class RouteOptions(BaseModel):
    """Query options of a route besides the settings of the reward; dialects add others."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    task: str | None = Field(
        None,
        description="The task of every row, by its name in GET /v1/tasks; its options are names of the query.",
        json_schema_extra={"enum": list(REWARD_TASKS)},
    )
    task_field: str | None = Field(
        None,
        min_length=1,
        description="The row's field with the name of its task; `a.b` is the field b of a. A row without it is SCORE's."
        " Options of other tasks have the form `bioprobench.ord.repeats=failed`.",
    )

    @property
    def names_tasks(self) -> bool:
        """Whether replies have the numbers of all tasks."""
        return self.task is not None or self.task_field is not None


class Dialect(ABC):
    """The format of one trainer's requests and replies."""

    options: type[RouteOptions] = RouteOptions
    fields: tuple[str, ...]
    """The required members of a request."""

    def names(self, options: Any) -> MemberNames:
        """Return the members of a request that are read: the required ones, then others."""
        return MemberNames(*self.fields)

    @abstractmethod
    def label(self, document: Document, options: Any) -> ValueSpan:
        """Return the span of the reference, or of the array of references; `ABSENT` if it is missing."""

    @abstractmethod
    def native(self, document: Document, options: Any) -> bytes | None:
        """Return the native form of a common request of one rollout; None for any other, which `texts` reads."""

    @abstractmethod
    def texts(self, document: Document, options: Any, limits: Limits) -> Texts:
        """Return any request as columns, with every issue."""

    def missing_fields(self, document: Document) -> list[Issue]:
        """Return an issue for every required member that is missing."""
        return [
            Issue(name, "missing_field", "this field is required")
            for name, span in zip(self.fields, document.spans, strict=False)
            if span == ABSENT
        ]

    @abstractmethod
    def reference_path(self, options: Any) -> str:
        """Return what replaces `references` in paths of errors, ending in `[]` for an array."""

    @abstractmethod
    def encode(self, scores: Scores, document: Document, options: Any) -> bytes:
        """Return the bytes of the reply; raise ArithmeticError for a number that is not finite."""

    def masked(self, issues: Sequence[Issue], document: Document, options: Any) -> bytes | None:
        """Return the reply that excludes a rollout from training because of these issues of its reference.

        None if the query does not ask for such replies or the trainer has none: then the issues are an error.
        """
        return None


def native_request(reference: bytes, response: bytes) -> bytes:
    """Return the native request of one reference and one response, both JSON already."""
    return b'{"references":[%b],"responses":[%b]}' % (reference, response)


def read_column(
    raw: bytes, native: str, name: str, limits: Limits
) -> tuple[TextColumn | None, list[Issue], np.ndarray | None]:
    """Read an array as the native field `native`; return the column, its issues under that field's name, and kinds.

    The column is None for a missing array (reported elsewhere) and for anything that is not an array. The kinds are
    `Envelope.reference_kinds`.
    """
    if not raw:
        return None, [], None
    body = b'{"%b":%b}' % (native.encode(), raw)
    try:
        envelope = open_envelope(body, limits.max_responses, limits.max_reference_bytes)
    except TooManyError:
        issue = Issue(name, "too_many", f"more than {limits.max_responses} elements")
        raise Problem("too-large", f"A request may have {limits.max_responses} rollouts.", [issue]) from None
    if native in envelope.not_arrays:
        return None, [Issue(native, "wrong_type", "must be an array")], None
    column: TextColumn = getattr(envelope, native)
    return column, element_issues(envelope, native), envelope.reference_kinds


def read_pair(reference: bytes, response: bytes, response_name: str, limits: Limits) -> Texts:
    """Read one reference and one response, each as JSON, or empty if missing."""
    given = reference and b"[%b]" % reference
    references, reference_issues, kinds = read_column(given, "references", "references", limits)
    responses, issues, _ = read_column(response and b"[%b]" % response, "responses", response_name, limits)
    return Texts(responses, references, rename_paths(issues, "responses", response_name), reference_issues, kinds)


def rename_paths(issues: Iterable[Issue], old: str, new: str) -> list[Issue]:
    """Rename the paths of issues: `old[3]` becomes `new[3]` for `new[]`, else just `new`."""
    return [
        issue._replace(path=new.removesuffix("[]") + issue.path.removeprefix(old) if new.endswith("[]") else new)
        for issue in issues
    ]

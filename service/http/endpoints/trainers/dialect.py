"""What a trainer's dialect has to say, and what all of them share of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from .....kernels.column import TextColumn
from ....errors import Issue
from ....scoring.scores import Scores
from ...wire.envelope import TooManyError, open_envelope
from ...wire.json_codec import Limits, fault_issues
from ...wire.problems import Problem
from .json_document import ABSENT, Document, Names
from .query_settings import RouteOptions

__all__ = ["Dialect", "Texts", "missing", "native_request", "read_column", "renamed", "single"]


class Texts(NamedTuple):
    """The rollouts of a request as columns; a column is None where it could not be read, which `issues` say."""

    responses: TextColumn | None
    references: TextColumn | None
    issues: list[Issue]
    reference_faults: list[Issue]
    """Those of single references, as `references[k]`."""


class Dialect(Protocol):
    """How one trainer puts its request and wants its reply."""

    @property
    def options(self) -> type[RouteOptions]:
        """What an address may say besides settings of the reward."""

    def names(self, options: Any) -> Names:
        """The members of a request that are looked at."""

    def native(self, document: Document, options: Any) -> bytes | None:
        """A usual request of one rollout as a native one; None for all others, right or wrong: `texts` reads them."""

    def texts(self, document: Document, options: Any, limits: Limits) -> Texts:
        """Any request as columns, with every offending place."""

    def reference_path(self, options: Any) -> str:
        """What takes the place of `references` in the paths of errors, with `[]` where there are several."""

    def encode(self, scores: Scores, document: Document, options: Any) -> bytes:
        """The reply's bytes; raises ArithmeticError where a number is not finite."""

    def masked(self, faults: Sequence[Issue], document: Document, options: Any) -> bytes | None:
        """The reply that leaves a rollout out of training because of these faults of its reference.

        None where the address does not ask for such replies or the trainer knows none: then the faults are an error.
        """


def native_request(reference: bytes, response: bytes) -> bytes:
    """The native request of one reference and one response, both JSON already."""
    return b'{"references":[%b],"responses":[%b]}' % (reference, response)


def missing(document: Document, names: Iterable[str]) -> list[Issue]:
    """The members that have to be there and are not; `names` are the first of the document's."""
    return [
        Issue(name, "missing_field", "this field is required")
        for name, span in zip(names, document.spans, strict=False)
        if span == ABSENT
    ]


def read_column(raw: bytes, native: str, name: str, limits: Limits) -> tuple[TextColumn | None, list[Issue]]:
    """An array as a column, read as the native field `native` is, with its issues under that field's name.

    There is no column of an array that is missing, which is said elsewhere, nor of what is no array.
    """
    if not raw:
        return None, []
    body = b'{"%b":%b}' % (native.encode(), raw)
    try:
        envelope = open_envelope(body, limits.max_responses, limits.max_reference_bytes)
    except TooManyError:
        issue = Issue(name, "too_many", f"more than {limits.max_responses} elements")
        raise Problem("too-large", f"A request may have {limits.max_responses} rollouts.", [issue]) from None
    if native in envelope.misfits:
        return None, [Issue(native, "wrong_type", "must be an array")]
    column: TextColumn = getattr(envelope, native)
    return column, fault_issues(envelope, native)


def single(reference: bytes, response: bytes, response_name: str, limits: Limits) -> Texts:
    """The texts of one reference and one response, each JSON already, or empty where it is missing."""
    references, faults = read_column(reference and b"[%b]" % reference, "references", "references", limits)
    responses, misfits = read_column(response and b"[%b]" % response, "responses", response_name, limits)
    return Texts(responses, references, renamed(misfits, "responses", response_name), faults)


def renamed(issues: Iterable[Issue], old: str, new: str) -> list[Issue]:
    """Issues under a trainer's name: `old[3]` becomes `new[3]` for `new[]`, else just `new`."""
    return [
        issue._replace(path=new.removesuffix("[]") + issue.path.removeprefix(old) if new.endswith("[]") else new)
        for issue in issues
    ]

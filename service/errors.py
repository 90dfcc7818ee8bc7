"""The exceptions that Assay raises about its input.

    AssayError
    └── ScoringError (ValueError)
        ├── InvalidSetting      an unknown setting, or a value out of its range
        ├── InvalidReference    a reference that is not a list of valid steps
        ├── InvalidRequest      columns of wrong types or of lengths that do not match
        └── NotInstalled        a missing optional package, weights or word list

Each lists every issue in `issues`, and never quotes the invalid text.
A response that cannot be read is not an error but a result with a reason.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MAX_MISSPELLED = 40
"""Characters of a name for which a similar name is searched: the time grows with their square."""


class Issue(NamedTuple):
    """One problem of the input: its path, a machine-readable reason, and a sentence for people."""

    path: str
    reason: str
    detail: str


def with_remedy(text: str, remedy: str) -> str:
    return f"{text}: {remedy}" if remedy else text


def did_you_mean(name: object, valid: Iterable[str]) -> str:
    """Return `; did you mean order?` if a valid name is spelled like this one, else nothing."""
    near = close_match(name, valid)
    return "" if near is None else f"; did you mean {near}?"


def close_match(name: object, valid: Iterable[str]) -> str | None:
    """Return the valid name that is spelled most like this one, None if none is."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_MISSPELLED:
        return None
    from difflib import get_close_matches  # only after a mistake

    spellings = {word.lower().replace("-", "_"): word for word in valid}
    misspelled = name.lower().replace("-", "_")
    matches = get_close_matches(misspelled, spellings, 1)
    return spellings[matches[0]] if matches else None


def one_of(name: object, valid: Iterable[str]) -> str:
    valid = list(valid)
    return f"must be one of: {', '.join(valid)}{did_you_mean(name, valid)}"


def row_of(issue: Issue) -> int:
    """Return the row in a path like `references[3]`."""
    return int(issue.path.partition("[")[2].partition("]")[0])


class AssayError(Exception):
    """Base of every exception that Assay raises on purpose."""


class ScoringError(AssayError, ValueError):
    """The input as a whole cannot be scored; `issues` lists every reason."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__(self.issues)

    @property
    def advice(self) -> tuple[Issue, ...]:
        """The issues with remedies, for the person who runs the program."""
        return self.issues

    def __str__(self) -> str:
        shown = "; ".join(f"{issue.path}: {issue.detail} ({issue.reason})" for issue in self.advice[:10])
        hidden = len(self.issues) - 10
        return f"{shown}; and {hidden} more" if hidden > 0 else shown


class InvalidSetting(ScoringError):
    """A setting that does not exist, or a value outside its range."""


class InvalidReference(ScoringError):
    """A reference without steps, with a line that is not a valid step, or over a limit."""


class InvalidRequest(ScoringError):
    """Columns of wrong types or of lengths that do not match."""


class NotInstalled(ScoringError):
    """An optional package, weights or a word list is missing.

    remedies: advice for each issue on what to install or set, or an empty text; not in replies over HTTP.
    """

    def __init__(self, issues: Sequence[Issue], remedies: Sequence[str] = ()) -> None:
        super().__init__(issues)
        self.remedies = tuple(remedies) or ("",) * len(self.issues)
        self.args = (self.issues, self.remedies)

    @property
    def advice(self) -> tuple[Issue, ...]:
        pairs = zip(self.issues, self.remedies, strict=True)
        return tuple(issue._replace(detail=with_remedy(issue.detail, remedy)) for issue, remedy in pairs)


class UsageError(AssayError):
    """A file or an option that a command cannot use; the message says what to do."""


class UnreadableInput(UsageError):
    """A file that no command reads as it is."""


def format_traceback(error: BaseException) -> str:
    """Format the tracebacks of an error and its causes, root cause first; no messages, which may quote a request."""
    parts = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        parts.append(format_traceback(cause))
    parts.extend(traceback.format_tb(error.__traceback__))
    parts.append(f"{type(error).__module__}.{type(error).__qualname__}\n")
    return "".join(parts)


def forget_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error that has been answered, and of its causes.

    Their frames refer to the request's body, and often to a future that refers to the error: a cycle, which would keep
    the body in memory until the next garbage collection.
    """
    current: BaseException | None = error
    while current is not None:
        cause = current.__cause__ or current.__context__
        current.__traceback__ = current.__cause__ = current.__context__ = None
        current = cause

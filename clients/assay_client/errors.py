"""The exceptions of the client.

    AssayError
    ├── InvalidRequest (ValueError)   the request cannot be scored; a retry would not help
    │   ├── InvalidReference          a reference is missing or unreadable
    │   ├── InvalidSetting            an unknown setting, of the reward or of the client, or a value out of range
    │   └── TooLarge                  over a limit of the service
    ├── Unauthorized                  the key is missing or wrong
    ├── Unavailable                   no reply within the deadline, despite retries
    │   └── LocalServiceError         the service of mode "local" could not be started
    ├── ServiceError                  the service failed on this request
    └── BadReply                      the response is not a reply to this request

All of them can be pickled, so that worker processes can report them. None of them quotes a response or a reference.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from typing import NamedTuple

MAX_SHOWN = 10
"""Issues that a message lists; `issues` has all of them."""

ELEMENT = re.compile(r"(references|responses|reference_index|groups|task)\[([0-9]+)\](.*)", re.DOTALL)
SINGULAR = {"references": "reference", "task": "task"}
"""Names of columns in errors of a single response, which names the others `response`."""

HINT = "; `assay check` lists every such reference of a data set"


class Issue(NamedTuple):
    """One invalid value: its path, e.g. `references[3]`, a machine-readable reason, and a sentence for people."""

    path: str
    reason: str
    detail: str
    record: object = None
    """The caller's name for the response, e.g. its row in a data set; None if not given."""

    @property
    def element(self) -> tuple[str, int, str]:
        """Column, position and rest of a path such as `references[3].steps`; the position is -1 if it has none."""
        match = ELEMENT.fullmatch(self.path)
        return (match[1], int(match[2]), match[3]) if match else ("", -1, self.path)

    def __str__(self) -> str:
        return f"{'' if self.record is None else f'record {self.record}: '}{self.path}: {self.reason} ({self.detail})"


class AssayError(Exception):
    """Base of every error of this package; `request_id` identifies the request in the service's log."""

    # Only the message is positional: an exception is unpickled from its positional arguments, then given its __dict__.
    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class InvalidRequest(AssayError, ValueError):
    """The request cannot be scored. `issues` lists the values to fix (the service lists at most 100)."""

    def __init__(
        self, message: str, *, issues: Sequence[Issue] = (), status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message, status=status, request_id=request_id)
        self.issues = tuple(issues)


class InvalidReference(InvalidRequest):
    """A reference is missing, has no steps, or has a line that is not a valid step."""


class InvalidSetting(InvalidRequest):
    """A setting that does not exist, or a value outside its range."""


class TooLarge(InvalidRequest):
    """Over one of the service's limits of bytes or responses."""


class Unauthorized(AssayError):
    """The service requires a key, which is missing or wrong."""


class Unavailable(AssayError):
    """No reply within the deadline. `attempts` counts the requests that were started."""

    def __init__(self, message: str, *, attempts: int = 0, status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.attempts = attempts


class LocalServiceError(Unavailable):
    """The service of mode "local" could not be started; the message ends with the end of its log."""


class ServiceError(AssayError):
    """The service failed on this request, and would fail again."""


class BadReply(AssayError):
    """An invalid reply: not JSON, of the wrong length, or with a number that is not finite."""


def invalid(
    issues: Sequence[Issue], *, record: object = None, status: int | None = None, request_id: str | None = None
) -> InvalidRequest:
    """Return the most specific error, which lists the first issues; `record`, if given, belongs to all of them."""
    listed = [issue if record is None else issue._replace(record=record) for issue in issues]
    shown = "; ".join(map(str, listed[:MAX_SHOWN]))
    more = f"; and {len(listed) - MAX_SHOWN} more" if len(listed) > MAX_SHOWN else ""
    kind = error_class(listed)
    in_data = any(issue.reason != "missing_column" and issue.path != "references" for issue in listed)
    hint = HINT if kind is InvalidReference and in_data else ""
    return kind(f"{shown}{more}{hint}", issues=listed, status=status, request_id=request_id)


def invalid_setting(name: str, detail: str) -> InvalidSetting:
    return InvalidSetting(f"{name}: {detail}", issues=[Issue(name, "invalid_setting", detail)])


def error_class(issues: Sequence[Issue]) -> type[InvalidRequest]:
    if all(issue.path.startswith("reference") and "_index" not in issue.path for issue in issues):
        return InvalidReference
    if all(issue.path.startswith("config") or issue.reason.endswith("_setting") for issue in issues):
        return InvalidSetting
    return InvalidRequest


def issues_by_position(error: AssayError, positions: Container[int]) -> dict[int, list[Issue]]:
    """Return the issues of each response or reference, as if sent alone; empty if one is of none of these positions."""
    named: dict[int, list[Issue]] = {}
    for issue in error.issues if isinstance(error, InvalidRequest) else ():
        column, k, suffix = issue.element
        if k not in positions:
            return {}
        renamed = issue._replace(path=SINGULAR.get(column, "response") + suffix)
        named.setdefault(k, []).append(renamed)
    return named

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

import logging
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Sequence
from email.utils import parsedate_to_datetime
from itertools import count
from typing import NamedTuple

from .results import HttpReply, problem_document
from .settings import ClientSettings
from .transport.connecting import Address
from .transport.http11 import TransportFault

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


Offence = Issue
"""The name of `Issue` before version 0.2; to be removed in 0.3."""


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

    @property
    def offences(self) -> tuple[Issue, ...]:
        """The name of `issues` before version 0.2; to be removed in 0.3."""
        return self.issues


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


RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
MAX_STALE = 3
"""Stale pooled connections that a call accepts before it counts them as failures of the service."""

MAX_DETAIL = 200
WARNING_SECONDS = 10.0
"""Time between two warnings of this process about calls that are retried."""

logger = logging.getLogger("assay_client")

_warned_at = float("-inf")


class Endpoints:
    """The services of one client, used in rotation, those that failed recently last. Thread-safe without a lock."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        self._turns = count(random.randrange(len(self.addresses)) if self.addresses else 0)
        self._last_until: dict[Address, float] = {}

    def in_order(self, now: float) -> list[Address]:
        first = next(self._turns) % len(self.addresses)
        rotated = self.addresses[first:] + self.addresses[:first]
        return sorted(rotated, key=lambda address: max(0.0, self._last_until.get(address, 0.0) - now))

    def put_last(self, address: Address, until: float) -> None:
        self._last_until[address] = until

    def restore(self, address: Address) -> None:
        self._last_until.pop(address, None)


async def reply_with_retries(
    endpoints: Endpoints,
    settings: ClientSettings,
    deadline: float,
    attempt: Callable[[Address, float], Awaitable[HttpReply]],
    sleep: Callable[[float], Awaitable[None]],
    clock: Callable[[], float] = time.monotonic,
    uniform: Callable[[float, float], float] = random.uniform,
) -> HttpReply:
    """Return the final reply of a call until `deadline` on `clock`; raise Unavailable.

    `attempt` sends the request to a service and returns its reply within some seconds, or raises TransportFault.

    Connection faults, 408, 429, 502, 503 and 504 are retried: immediately on a service not yet tried, else with
    exponential backoff and full jitter, and not before `Retry-After`.
    """
    order = endpoints.in_order(clock())
    ready_at = dict.fromkeys(order, float("-inf"))
    failures: Counter[Address] = Counter()
    faults: Counter[str] = Counter()
    attempts = stale = 0
    while True:
        address = min(order, key=lambda candidate: ready_at[candidate])
        now = clock()
        if now >= deadline or ready_at[address] >= deadline:
            raise unavailable(faults, attempts, delay=ready_at[address] - now if now < deadline else 0.0)
        if ready_at[address] > now:
            await sleep(ready_at[address] - now)
            continue
        attempts += 1
        outcome: HttpReply | TransportFault
        try:
            outcome = await attempt(address, min(deadline - now, settings.attempt_timeout))
        except TransportFault as fault:
            outcome = fault
        if isinstance(outcome, HttpReply) and outcome.status not in RETRIED_STATUSES:
            endpoints.restore(address)
            return outcome
        if isinstance(outcome, TransportFault) and outcome.stale and stale < MAX_STALE:
            stale += 1
            continue
        now = clock()
        minimum = retry_after(outcome) if isinstance(outcome, HttpReply) else 0.0
        bound = min(settings.max_backoff, settings.backoff * 2.0 ** min(failures[address], 32))
        failures[address] += 1
        cause = f"{address}: {describe(outcome)}"
        faults[cause] += 1
        warn(f"{cause}; retrying for up to {max(deadline - now, 0.0):.0f} s")
        ready_at[address] = now + minimum + uniform(0.0, bound)
        endpoints.put_last(address, now + max(minimum, settings.max_backoff))


def warn(message: str) -> None:
    global _warned_at
    now = time.monotonic()
    if now - _warned_at >= WARNING_SECONDS:
        _warned_at = now
        logger.warning("%s", message)


def describe(outcome: HttpReply | TransportFault) -> str:
    if isinstance(outcome, TransportFault):
        return outcome.detail
    detail = str(problem_document(outcome).get("detail", ""))[:MAX_DETAIL]
    return f"HTTP {outcome.status} {detail}".rstrip()


def unavailable(faults: Counter[str], attempts: int, delay: float) -> Unavailable:
    common = faults.most_common(5)
    causes = "; ".join(f"{cause} ({times} times)" if times > 1 else cause for cause, times in common)
    waiting = f"; the next attempt would be in {delay:.1f} s, past the deadline" if delay > 0 else ""
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    message = f"no reward: the service did not answer within the deadline, after {tried}{waiting}. {causes}"
    return Unavailable(message.rstrip(". ") + ".", attempts=attempts)


def retry_after(reply: HttpReply) -> float:
    """Return the seconds of `Retry-After`, whose date is compared with the reply's; 0 if missing or invalid."""
    value = reply.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    moment = timestamp(value)
    if moment is None:
        return 0.0
    now = timestamp(reply.headers.get("date", ""))
    return max(0.0, moment - (time.time() if now is None else now))


def timestamp(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None

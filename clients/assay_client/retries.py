"""What to do next in a call: send to which service, wait how long, or give up. Without any input or output.

A conversation is a generator. It yields `Send` and is sent a `Reply` or a `Fault`, or yields `Sleep` and is sent
nothing; it returns the reply to keep, or raises Unavailable. The synchronous and the asynchronous client drive the
same one.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from .errors import Unavailable
from .replies import Reply, problem_document
from .settings import ClientSettings
from .transport.addresses import Address
from .transport.http11 import Fault

__all__ = ["Conversation", "Endpoints", "Send", "Sleep", "converse", "retry_after"]

RETRIED = frozenset({408, 429, 502, 503, 504})
MAX_STALE = 3
"""Connections from the pool that may turn out closed before that counts as a failure of the service."""

MAX_DETAIL = 200


class Send(NamedTuple):
    """Exchange the request with this service, within so many seconds."""

    address: Address
    seconds: float


class Sleep(NamedTuple):
    """Do nothing for so many seconds."""

    seconds: float


Conversation = Generator["Send | Sleep", "Reply | Fault | None", Reply]


class Endpoints:
    """The services of one client: calls take turns among them, and prefer those that have not just failed.

    Shared by all calls of a client, in any thread.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(addresses)
        self._lock = threading.Lock()
        self._turn = random.randrange(len(self.addresses)) if self.addresses else 0
        self._resting: dict[Address, float] = {}

    def in_turn(self, now: float) -> list[Address]:
        """All, the one to try first at the front."""
        with self._lock:
            self._turn = (self._turn + 1) % len(self.addresses)
            turned = self.addresses[self._turn :] + self.addresses[: self._turn]
            return sorted(turned, key=lambda address: max(0.0, self._resting.get(address, 0.0) - now))

    def rest(self, address: Address, until: float) -> None:
        """Leave a service that has failed to the last, until then."""
        with self._lock:
            self._resting[address] = until

    def works(self, address: Address) -> None:
        """Forget that a service has failed."""
        if address in self._resting:
            with self._lock:
                self._resting.pop(address, None)


def converse(
    endpoints: Endpoints,
    settings: ClientSettings,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
    uniform: Callable[[float, float], float] = random.uniform,
) -> Conversation:
    """One call until `deadline` on `clock`.

    Connection faults, 408, 429, 502, 503 and 504 are tried again: at once on a service not yet tried, else after a
    pause drawn from nothing up to a bound that doubles (exponential backoff with full jitter), and not before
    `Retry-After`.
    """
    order = endpoints.in_turn(clock())
    ready_at = dict.fromkeys(order, float("-inf"))
    failures: Counter[Address] = Counter()
    faults: Counter[str] = Counter()
    attempts = stale = 0
    while True:
        address = min(order, key=lambda candidate: ready_at[candidate])
        now = clock()
        if now >= deadline or ready_at[address] >= deadline:
            raise gave_up(faults, attempts, asked_to_wait=ready_at[address] - now if now < deadline else 0.0)
        if ready_at[address] > now:
            yield Sleep(ready_at[address] - now)
            continue
        attempts += 1
        outcome = yield Send(address, min(deadline - now, settings.attempt_timeout))
        assert outcome is not None
        if isinstance(outcome, Reply) and outcome.status not in RETRIED:
            endpoints.works(address)
            return outcome
        if isinstance(outcome, Fault) and outcome.stale and stale < MAX_STALE:
            stale += 1
            continue
        now = clock()
        asked = retry_after(outcome) if isinstance(outcome, Reply) else 0.0
        bound = min(settings.max_backoff, settings.backoff * 2.0 ** min(failures[address], 32))
        failures[address] += 1
        faults[f"{address}: {description(outcome)}"] += 1
        ready_at[address] = now + asked + uniform(0.0, bound)
        endpoints.rest(address, now + max(asked, settings.max_backoff))


def description(outcome: Reply | Fault) -> str:
    if isinstance(outcome, Fault):
        return outcome.what
    detail = str(problem_document(outcome).get("detail", ""))[:MAX_DETAIL]
    return f"HTTP {outcome.status} {detail}".rstrip()


def gave_up(faults: Counter[str], attempts: int, asked_to_wait: float) -> Unavailable:
    seen = "; ".join(f"{what} ({count} times)" if count > 1 else what for what, count in faults.most_common(5))
    waiting = f"; the next attempt would be in {asked_to_wait:.1f} s, past the deadline" if asked_to_wait > 0 else ""
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    message = f"no reward: the service did not answer within the deadline, after {tried}{waiting}. {seen}"
    return Unavailable(message.rstrip(". ") + ".", attempts=attempts)


def retry_after(reply: Reply) -> float:
    """Seconds that the service asks to wait, given as such or as a date; 0 where it does not, or not readably."""
    given = reply.headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit():
        return float(given[:9])
    try:
        moment = parsedate_to_datetime(given).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
    return max(0.0, moment - service_time(reply))


def service_time(reply: Reply) -> float:
    """The service's own clock, by which it gives dates; ours where it does not tell."""
    try:
        return parsedate_to_datetime(reply.headers.get("date", "")).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return time.time()

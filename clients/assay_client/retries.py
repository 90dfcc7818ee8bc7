"""Retry policy of a call: which service to try next, how long to wait, and when to give up."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from email.utils import parsedate_to_datetime
from itertools import count

from .errors import Unavailable
from .results import HttpReply, document_of
from .settings import ClientSettings
from .transport.addresses import Address
from .transport.http11 import TransportFault

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
MAX_STALE = 3
"""Stale pooled connections that a call accepts before it counts them as failures of the service."""

MAX_DETAIL = 200
LAST_SECONDS = 0.05
"""Time before the deadline in which no further attempt begins."""

WARNING_SECONDS = 10.0
"""Time between two warnings of this process about calls that are retried."""

logger = logging.getLogger("assay_client")

_warned_at = float("-inf")


class Endpoints:
    """The services of one client, used in rotation, those that failed recently last. Thread-safe without a lock."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.addresses = tuple(dict.fromkeys(addresses))
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
    exponential backoff and full jitter, and not before `Retry-After`. A service gets an equal share of the time that is
    left for it and for those that have failed no more often; a delay takes at most half of that time.
    """
    order = endpoints.in_order(clock())
    ready_at = dict.fromkeys(order, float("-inf"))
    failures: Counter[Address] = Counter()
    faults: Counter[str] = Counter()
    attempts = stale = 0
    while True:
        address = min(order, key=lambda candidate: ready_at[candidate])
        now = clock()
        last = deadline - LAST_SECONDS if attempts else deadline
        if now >= last or ready_at[address] >= last:
            delay = ready_at[address] - now if now < deadline <= ready_at[address] else 0.0
            raise unavailable(faults, attempts, delay)
        if ready_at[address] > now:
            await sleep(ready_at[address] - now)
            continue
        attempts += 1
        outcome: HttpReply | TransportFault
        sharing = sum(failures[candidate] <= failures[address] for candidate in order)
        try:
            outcome = await attempt(address, min((deadline - now) / sharing, settings.attempt_timeout))
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
        cause = f"{address.described}: {describe(outcome)}"
        faults[cause] += 1
        warn(f"{cause}; retrying for up to {max(deadline - now, 0.0):.0f} s")
        ready_at[address] = now + minimum + min(uniform(0.0, bound), max(0.0, deadline - now - minimum) / 2)
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
    detail = str(document_of(outcome).get("detail", ""))[:MAX_DETAIL]
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

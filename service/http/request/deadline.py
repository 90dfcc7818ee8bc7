"""The moment by which a request must be answered."""

from __future__ import annotations

import math
from time import perf_counter

from ...errors import Issue
from ..wire.problems import Problem
from .exchange import Exchange

__all__ = ["Deadline"]


class Deadline:
    """A moment on the exchange's clock, in seconds. (uvloop's own stands still within one turn of the loop.)"""

    __slots__ = ("_moment",)

    def __init__(self, exchange: Exchange, longest: float) -> None:
        """`longest` seconds from the request's head on, or fewer where the header `X-Request-Timeout` says so.

        On a route with a patience of its own, that is the longest.
        Raises Problem `invalid-request` where the header is no number of seconds.
        """
        longest = exchange.patience or longest
        given = exchange.raw_headers.get(b"x-request-timeout")  # an empty one is given, and no number
        self._moment = exchange.started + (min(seconds(given), longest) if given is not None else longest)

    @property
    def left(self) -> float:
        """Seconds until then; 0 afterwards."""
        return max(0.0, self._moment - perf_counter())

    def check(self) -> None:
        """Raise Problem `deadline` once the moment has passed."""
        if perf_counter() >= self._moment:
            raise past()


def seconds(given: bytes) -> float:
    """The number of a header `X-Request-Timeout`; raises Problem unless it is a finite number above 0."""
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if not (0 < value < math.inf):
        issue = Issue("X-Request-Timeout", "invalid_header", "a number of seconds above 0")
        raise Problem("invalid-request", "The header X-Request-Timeout is not a number of seconds.", [issue])
    return value


def past() -> Problem:
    return Problem("deadline", "The deadline passed before the request was scored; no result was kept.")

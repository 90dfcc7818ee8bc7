"""The deadline of one request."""

from __future__ import annotations

import math
from time import perf_counter

from ...errors import Issue
from ..wire.problems import Problem

__all__ = ["Deadline", "deadline_exceeded", "deadline_of"]


class Deadline:
    """A point in time of `perf_counter`. (uvloop's clock does not advance within a turn of its loop.)"""

    __slots__ = ("_moment",)

    def __init__(self, moment: float) -> None:
        self._moment = moment

    @property
    def left(self) -> float:
        return max(0.0, self._moment - perf_counter())

    def earlier(self, seconds: float) -> Deadline:
        return Deadline(self._moment - seconds)

    def check(self) -> None:
        if perf_counter() >= self._moment:
            raise deadline_exceeded()


def deadline_of(started: float, timeout: bytes | None, max_seconds: float) -> Deadline:
    """Return the deadline, earlier if the header `X-Request-Timeout` says so; raise Problem if that is invalid."""
    if timeout is None:
        return Deadline(started + max_seconds)
    try:
        seconds = float(timeout)
    except ValueError:
        seconds = math.nan
    if not (0 < seconds < math.inf):
        issue = Issue("X-Request-Timeout", "invalid_header", "a number of seconds above 0")
        raise Problem("invalid-request", "The header X-Request-Timeout is not a number of seconds.", [issue])
    return Deadline(started + min(seconds, max_seconds))


def deadline_exceeded() -> Problem:
    return Problem("deadline", "The deadline passed before the request was scored; no result was kept.")

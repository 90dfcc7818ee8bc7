"""Lines of the log about refused requests: which route refused what, and nothing of the request's texts."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from ....errors import Issue
from ...wire.problems import Problem
from ..exchange import Exchange

__all__ = ["Line", "RefusalLog", "log_ids"]

log = logging.getLogger("assay")

LINE_SECONDS = 10.0
"""Least time between two lines about refusals of one kind."""

MAX_KINDS = 512
"""Kinds of refusals that are told apart: routes, kinds of problems and reasons are ours, so there are fewer."""

MAX_PLACES = 3
"""Offending places in a line."""

MAX_DETAIL = 200

MAX_PATH = 100

PLAIN_PATH = re.compile(r"[\w-]{1,40}(\[\d+\])*(\.[\w-]{1,40}(\[\d+\])*)*", re.ASCII)
"""Paths that a line shows: names as settings and fields have them. Any other name may be a text."""

HIDDEN = "(a name that is not shown)"

UNPRINTABLE = re.compile("[^ -~]")

QUOTING = frozenset({"bad_reference"})
"""Reasons whose detail repeats names of the reference's own fields."""

Kind = tuple[str, str, str]
"""Route, kind of the problem, and reason of its first offending place."""


class Line(NamedTuple):
    """One line of the log, and how many refusals of its kind have had none since the last one."""

    text: str
    suppressed: int


class LastLine:
    """When the last line about a kind of refusal was written, and how many refusals have had none since."""

    __slots__ = ("at", "suppressed")

    def __init__(self, at: float) -> None:
        self.at = at
        self.suppressed = 0


class RefusalLog:
    """The refused requests of one application. For the event loop's thread.

    One look into a dictionary for a refusal that gets no line, so that a storm of them costs nothing.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last: dict[Kind, LastLine] = {}

    def log(self, exchange: Exchange, route: str, problem: Problem, masked: bool = False) -> None:
        """Write the line about this refusal, if one is due; `route` is one of ours."""
        method, request_id = exchange.scope["method"], exchange.request_id.decode("ascii")
        line = self.line(method, route, request_id, problem, masked)
        if line is not None:
            extra = log_ids(exchange) | {"method": method, "route": route, "status": 200 if masked else problem.status}
            log.warning("%s", line.text, extra=extra | {"problem": problem.kind, "suppressed": line.suppressed})

    def line(self, method: str, route: str, request_id: str, problem: Problem, masked: bool = False) -> Line | None:
        """The line about this refusal; None where one of its kind was written within the last `LINE_SECONDS`.

        `masked` says that the request was answered all the same, without a reward.
        """
        done = "masked" if masked else "refused"
        kind = (f"{done} {route}", problem.kind, problem.issues[0].reason if problem.issues else "")
        now = self._clock()
        last = self._last.get(kind)
        if last is None and len(self._last) >= MAX_KINDS:
            kind = ("", "", "")
            last = self._last.get(kind)
        if last is not None and now - last.at < LINE_SECONDS:
            last.suppressed += 1
            return None
        suppressed = 0 if last is None else last.suppressed
        self._last[kind] = LastLine(now)
        more = f"; {suppressed} more like it since the last such line" if suppressed else ""
        status = "" if masked else f"{problem.status} "
        head = f"{method} {route} {done}: {status}{problem.kind}, request {request_id}"
        return Line(f"{head}: {issue_of(problem)}{more} (at most one such line in {LINE_SECONDS:.0f} s)", suppressed)


def log_ids(exchange: Exchange) -> dict[str, Any]:
    """What a line of the log holds of a request: its ids, of which only a well-formed one is the client's."""
    found = {"request_id": exchange.request_id.decode("ascii")}
    if exchange.trace is not None:
        found["trace_id"] = exchange.trace.trace_id.decode("ascii")
    return found


def issue_of(problem: Problem) -> str:
    """What a problem is about: its first offending places, or its own sentence where it has none."""
    if not problem.issues:
        return printable(problem.detail)
    places = "; ".join(place_of(issue) for issue in problem.issues[:MAX_PLACES])
    hidden = problem.error_count - min(len(problem.issues), MAX_PLACES)
    return f"{places}; and {hidden} more" if hidden > 0 else places


def place_of(issue: Issue) -> str:
    path = plain_path(issue.path)
    return f"{path}: {issue.reason}" + ("" if issue.reason in QUOTING else f" ({printable(issue.detail)})")


def plain_path(path: str) -> str:
    """A path, without the names in it that may be texts."""
    if is_plain(path):
        return path
    table, dot, _ = path.partition(".")
    return f"{table}.{HIDDEN}" if dot and is_plain(table) else HIDDEN


def is_plain(path: str) -> bool:
    return len(path) <= MAX_PATH and PLAIN_PATH.fullmatch(path) is not None


def printable(sentence: str) -> str:
    """A sentence in printable ASCII, and not too long."""
    if len(sentence) > MAX_DETAIL:
        sentence = sentence[: MAX_DETAIL - 3] + "..."
    return UNPRINTABLE.sub("?", sentence)

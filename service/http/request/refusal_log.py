"""Log lines about refused requests: route, kind and reasons, but no texts of the request."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from time import monotonic
from typing import Any

from opentelemetry.trace import format_trace_id

from ...errors import Issue
from ...wire.problems import Problem
from .exchange import Exchange

log = logging.getLogger("assay")

LINE_SECONDS = 10.0
"""Minimum time between two lines about refusals of the same kind."""

MAX_KINDS = 512
"""Maximum kinds of refusals to distinguish. There are fewer: routes, problems and reasons are the service's own."""

MAX_ISSUES = 3
MAX_DETAIL = 200
MAX_PATH = 100
LOGGED_PATH = re.compile(r"[\w-]{1,40}(\[\d+\])*(\.[\w-]{1,40}(\[\d+\])*)*", re.ASCII)
"""Paths that may be logged: names in the form of settings and fields. Any other name may be a text of the request."""

HIDDEN = "(a name that is not shown)"
UNPRINTABLE = re.compile("[^ -~]")
QUOTING = frozenset({"bad_reference"})
"""Reasons whose detail quotes names of fields of the reference."""

RefusalKind = tuple[str, str, str]
"""Route, kind of the problem, and reason of its first issue."""


class RefusalLog:
    """Logs the refused requests of one application at a limited rate. Not thread-safe: for the event loop only."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._last: dict[RefusalKind, tuple[float, int]] = {}
        """Time of the last line about each kind, and the number of refusals that were not logged since."""

    def log(self, exchange: Exchange, route: str, problem: Problem, masked: bool = False) -> None:
        """Log this refusal, unless one of its kind was logged lately; `masked`: it was answered with a mask."""
        done = "masked" if masked else "refused"
        first_reason = problem.issues[0].reason if problem.issues else ""
        suppressed = self._suppressed((f"{done} {route}", problem.kind, first_reason))
        if suppressed is None:
            return
        method, status = exchange.scope["method"], 200 if masked else problem.status
        request = exchange.request_id.decode("ascii") + (f" of run {exchange.run!r}" if exchange.run else "")
        more = f"; {suppressed} more since the last such line" if suppressed else ""
        kind = problem.kind if masked else f"{status} {problem.kind}"
        extra = {"method": method, "route": route, "status": status, "problem": problem.kind, "suppressed": suppressed}
        log.warning(
            "%s %s %s: %s, request %s: %s%s (at most one such line in %.0f s)",
            *(method, route, done, kind, request, summary_of(problem), more, LINE_SECONDS),
            extra=log_ids(exchange) | extra,
        )

    def _suppressed(self, kind: RefusalKind) -> int | None:
        """Return the number of refusals of this kind since the last line; None if it is too early for another line."""
        now = self._clock()
        if kind not in self._last and len(self._last) >= MAX_KINDS:
            kind = ("", "", "")
        time, suppressed = self._last.get(kind, (-LINE_SECONDS, 0))
        if now - time < LINE_SECONDS:
            self._last[kind] = time, suppressed + 1
            return None
        self._last[kind] = now, 0
        return suppressed


def log_ids(exchange: Exchange) -> dict[str, Any]:
    ids = {"request_id": exchange.request_id.decode("ascii")}
    if exchange.run:
        ids["run"] = exchange.run
    if exchange.span is not None:
        ids["trace_id"] = format_trace_id(exchange.span.trace_id)
    return ids


def summary_of(problem: Problem) -> str:
    if not problem.issues:
        return printable(problem.detail)
    issues = "; ".join(format_issue(issue) for issue in problem.issues[:MAX_ISSUES])
    omitted = problem.error_count - min(len(problem.issues), MAX_ISSUES)
    return f"{issues}; and {omitted} more" if omitted > 0 else issues


def format_issue(issue: Issue) -> str:
    path = redacted_path(issue.path)
    return f"{path}: {issue.reason}" + ("" if issue.reason in QUOTING else f" ({printable(issue.detail)})")


def redacted_path(path: str) -> str:
    """Hide names in a path that may be texts of the request."""
    if may_be_logged(path):
        return path
    table, dot, _ = path.partition(".")
    return f"{table}.{HIDDEN}" if dot and may_be_logged(table) else HIDDEN


def may_be_logged(path: str) -> bool:
    return len(path) <= MAX_PATH and LOGGED_PATH.fullmatch(path) is not None


def printable(sentence: str) -> str:
    """Return a sentence in printable ASCII, at most MAX_DETAIL characters."""
    if len(sentence) > MAX_DETAIL:
        sentence = sentence[: MAX_DETAIL - 3] + "..."
    return UNPRINTABLE.sub("?", sentence)

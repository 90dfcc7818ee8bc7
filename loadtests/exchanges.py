"""Requests with their expected answers, and a record of the outcomes, for Locust's processes.

This module needs nothing that Locust's patches of a process may break.
"""

from __future__ import annotations

import os
import time
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import orjson

KEY = "ASSAY_API_KEY"
"""The environment variable with the key of the service, as for `assay_client`."""

JSON = {"Content-Type": "application/json"}
UNANSWERED = frozenset({0, 429})
"""Statuses below 500 that do not depend on the request: no reply, over capacity."""

FAULTS_SHOWN = 5


def authorization() -> dict[str, str]:
    """Return the header with the key of the service; none without a key."""
    key = os.environ.get(KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


class ReplyFault(Exception):
    """An error in a reply; the text never quotes a body."""


class RequestFailed(ReplyFault):
    """There is no answer: no connection, a refusal for lack of capacity, an internal error."""


class WrongAnswer(ReplyFault):
    """The answer is not the expected one."""


@dataclass(frozen=True)
class LoadExchange:
    """One request and its expected answer.

    `answer` is the complete document for status 200; for an error {"type": …} and, where the contract fixes them,
    {"places": [[path, reason], …]}, sorted.
    """

    name: str
    body: bytes
    answer: dict[str, Any]
    responses: int
    _: KW_ONLY
    status: int = 200
    method: str = "POST"
    path: str = "/v1/score"
    headers: dict[str, str] = field(default_factory=lambda: JSON)

    def fault(self, status: int, content: bytes | None) -> ReplyFault | None:
        """Return the error in this reply, or None."""
        if status != self.status:
            kind = RequestFailed if status in UNANSWERED or status >= 500 else WrongAnswer
            return kind(f"status {status}, not {self.status}")
        try:
            document = orjson.loads(content or b"")
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            return WrongAnswer("the reply is not a JSON object")
        if status != 200:
            document["places"] = sorted([error["path"], error["reason"]] for error in document.get("errors", ()))
            document = {name: value for name, value in document.items() if name in self.answer}
        same = {name for name in self.answer.keys() & document.keys() if self.answer[name] == document[name]}
        wrong = [name for name in self.answer | document if name not in same]
        return WrongAnswer(f"wrong {', '.join(wrong)}") if wrong else None


def write_exchanges(path: Path, exchanges: Mapping[str, Sequence[LoadExchange]]) -> None:
    """Write the exchanges of each scenario as JSON, with bodies in base64."""
    rows = {
        scenario: [{**vars(exchange), "body": b64encode(exchange.body).decode()} for exchange in group]
        for scenario, group in exchanges.items()
    }
    path.write_bytes(orjson.dumps(rows))


def read_exchanges(path: Path) -> dict[str, list[LoadExchange]]:
    """Read what `write_exchanges` wrote."""
    rows = orjson.loads(path.read_bytes())
    return {
        scenario: [LoadExchange(**{**row, "body": b64decode(row["body"])}) for row in group]
        for scenario, group in rows.items()
    }


class LoadOutcome(NamedTuple):
    due: float  # seconds since 1970
    milliseconds: float
    late: float  # milliseconds by which it was sent after that
    responses: int


class RecordedExchange:
    """The outcomes of a run: Locust's own statistics round response times, and include the ramp at the start.

    A request belongs to the hold if it was due within `hold` seconds after the ramp.
    """

    def __init__(self, ramp: float, hold: float) -> None:
        self._ramp = ramp
        self._hold = hold
        self._outcomes: list[LoadOutcome] = []
        self._wrong = 0
        self._faults: Counter[str] = Counter()

    def start(self) -> None:
        self._started, self._cpu_seconds = time.time(), time.process_time()

    def add(
        self, name: str, response_time: float, start_time: float, exception: Exception | None, context: Any, **_: Any
    ) -> None:
        """Add Locust's `request` event."""
        self._outcomes.append(LoadOutcome(start_time, response_time, context.get("late", 0.0), context["responses"]))
        if exception is not None:
            self._wrong += isinstance(exception, WrongAnswer)
            self._faults[f"{name}: {exception}"] += 1

    def write(self, path: Path, sent: int) -> None:
        """Write the figures; requests that were sent and have no outcome have failed."""
        share = (time.process_time() - self._cpu_seconds) / (time.time() - self._started)
        began = self._started + self._ramp
        ended = began + self._hold
        held = [outcome for outcome in self._outcomes if began <= outcome.due < ended]
        milliseconds = [outcome.milliseconds for outcome in held]
        figures = {
            "requests_per_second": len(held) / self._hold,
            "responses_per_second": sum(outcome.responses for outcome in held) / self._hold,
            "median": percentile(milliseconds, 0.5),
            "p95": percentile(milliseconds, 0.95),
            "p99": percentile(milliseconds, 0.99),
            "late_p99": percentile([outcome.late for outcome in held], 0.99),
            "sent": sent,
            "failed": self._faults.total() - self._wrong + sent - len(self._outcomes),
            "wrong": self._wrong,
            "faults": self._faults.most_common(FAULTS_SHOWN),
            "responses": sum(outcome.responses for outcome in self._outcomes),
            "client_share": share,
            "began": began,
            "ended": ended,
            "first": min((outcome.due for outcome in self._outcomes), default=ended),
            "last": max((outcome.due + outcome.milliseconds / 1000 for outcome in self._outcomes), default=began),
        }
        path.write_bytes(orjson.dumps(figures))


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least `share` of all values do not exceed; None without values."""
    return sorted(values)[ceil(share * len(values)) - 1] if values else None

"""Requests with their expected answers, in a file that Locust's processes read."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import orjson

__all__ = [
    "KEY",
    "Exchange",
    "Fault",
    "RequestFailed",
    "WrongAnswer",
    "authorization",
    "read_exchanges",
    "write_exchanges",
]

KEY = "ASSAY_API_KEY"
"""The environment variable with the key of the service, as for `assay_client`."""

JSON = {"Content-Type": "application/json"}
UNANSWERED = frozenset({0, 429, 503, 504})
"""Statuses that do not depend on the request: no reply, over capacity, not ready, past the deadline."""


def authorization() -> dict[str, str]:
    """Return the header with the key of the service; none without a key."""
    key = os.environ.get(KEY)
    return {"Authorization": f"Bearer {key}"} if key else {}


class Fault(Exception):
    """An error in a reply; the text never quotes a body."""


class RequestFailed(Fault):
    """There is no answer: no connection, a refusal for lack of capacity, an internal error."""


class WrongAnswer(Fault):
    """The answer is not the expected one."""


class Exchange(NamedTuple):
    """One request and its expected answer.

    `answer` is the complete document for status 200; for an error {"type": …} and, where the contract fixes them,
    {"places": [[path, reason], …]}, sorted.
    """

    name: str
    body: bytes
    answer: dict[str, Any]
    responses: int
    status: int = 200
    method: str = "POST"
    path: str = "/v1/score"
    headers: dict[str, str] = JSON

    def fault(self, status: int, content: bytes | None) -> Fault | None:
        """Return the error in this reply, or None."""
        if status != self.status:
            kind = RequestFailed if status in UNANSWERED or status >= 500 else WrongAnswer
            return kind(f"status {status}, not {self.status}")
        try:
            document = orjson.loads(content or b"")
        except orjson.JSONDecodeError:
            return WrongAnswer("the reply is not JSON")
        actual = document if status == 200 else expected_fields(document, self.answer)
        return None if actual == self.answer else WrongAnswer(first_difference(self.answer, actual))


def expected_fields(document: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Reduce a problem document to the fields of `answer`."""
    places = sorted([error["path"], error["reason"]] for error in document.get("errors", ()))
    return {name: value for name, value in (document | {"places": places}).items() if name in answer}


def first_difference(expected: dict[str, Any], actual: dict[str, Any]) -> str:
    """Describe the first difference between two documents, which are not equal."""
    if expected.keys() != actual.keys():
        return f"the fields are {', '.join(actual)}, not {', '.join(expected)}"
    name = next(name for name in expected if expected[name] != actual[name])
    old, new = expected[name], actual[name]
    if isinstance(old, dict) and isinstance(new, dict):
        return f"{name}: {first_difference(old, new)}"
    if not (isinstance(old, list) and isinstance(new, list)):
        return f"{name} differs"
    if len(old) != len(new):
        return f"{name} has {len(new)} entries, not {len(old)}"
    k = next(k for k, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    return f"{name}[{k}] is {new[k]!r}, not {old[k]!r}"


def write_exchanges(path: Path, exchanges: Iterable[Exchange]) -> Path:
    """Write exchanges to `path` and return it."""
    path.write_bytes(pickle.dumps([tuple(exchange) for exchange in exchanges]))
    return path


def read_exchanges(path: Path) -> list[Exchange]:
    """Read the exchanges that `write_exchanges` wrote."""
    return [Exchange(*fields) for fields in pickle.loads(path.read_bytes())]

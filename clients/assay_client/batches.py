"""Batches of single calls: which to send, and how their outcome settles each call. No I/O."""

from __future__ import annotations

import copy
import re
from collections.abc import Generator, Sequence
from concurrent.futures import InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import AssayError, InvalidRequest, Issue, TooLarge, invalid
from .results import Score, Scores

__all__ = ["ITEM_PATH", "AnyFuture", "Entry", "settle_entries"]

ITEM_PATH = re.compile(r"(references|responses|reference_index)\[([0-9]+)\](.*)", re.DOTALL)


class AnyFuture(Protocol):
    """Interface of `asyncio.Future` and `concurrent.futures.Future`."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


@dataclass(eq=False, slots=True)
class Entry:
    """One single call in a batch."""

    response: str
    reference: str | bytes
    """Text, or JSON of its steps."""
    deadline: float
    record: object
    future: AnyFuture

    def resolve(self, score: Score) -> None:
        """Give the caller its score, unless the call has ended."""
        if not self.future.done():
            with suppress(InvalidStateError):  # cancelled in another thread meanwhile
                self.future.set_result(score)

    def fail(self, error: BaseException) -> None:
        """Give the caller its error, unless the call has ended."""
        if not self.future.done():
            with suppress(InvalidStateError):
                self.future.set_exception(error)


def settle_entries(entries: Sequence[Entry]) -> Generator[list[Entry], Scores | AssayError, None]:
    """Yield batches to score, receive the scores or the error of each, and settle every entry.

    An error that names some entries fails only these, and the others are sent again. A batch that is too large is
    halved. Any other error fails all entries of the batch.
    """
    queue = [list(entries)]
    while queue:
        batch = [entry for entry in queue.pop() if not entry.future.done()]
        if not batch:
            continue
        outcome = yield batch
        if isinstance(outcome, Scores):
            for entry, score in zip(batch, outcome.rows(), strict=True):
                entry.resolve(score)
        elif isinstance(outcome, TooLarge) and len(batch) > 1:
            queue += [batch[: len(batch) // 2], batch[len(batch) // 2 :]]
        else:
            queue.append(fail_named(batch, outcome))


def fail_named(batch: list[Entry], error: AssayError) -> list[Entry]:
    """Fail the entries that the error names, or all if it names anything else; return the others."""
    named = issues_by_entry(batch, error)
    if not named:
        for entry in batch:
            entry.fail(copy.copy(error))  # a copy each: raising an exception changes its traceback
        return []
    for k, issues in named.items():
        record = batch[k].record
        batch[k].fail(invalid(issues, record=record, status=error.status, request_id=error.request_id))
    return [entry for k, entry in enumerate(batch) if k not in named]


def issues_by_entry(batch: list[Entry], error: AssayError) -> dict[int, list[Issue]]:
    """Return the issues by entry, as if each had been sent alone; empty if an issue names no entry."""
    named: dict[int, list[Issue]] = {}
    for issue in error.issues if isinstance(error, InvalidRequest) else ():
        found = ITEM_PATH.fullmatch(issue.path)
        if found is None or int(found[2]) >= len(batch):
            return {}
        own = issue._replace(path={"references": "reference"}.get(found[1], "response") + found[3])
        named.setdefault(int(found[2]), []).append(own)
    return named

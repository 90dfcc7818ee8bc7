"""References read for scoring: every unreadable one is an error of the whole request."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.reading.references import References, concatenate, read_references, trim
from ...kernels.status import OK, REASONS
from ...kernels.text.unicode_tables import tables
from ..errors import InvalidReference, Issue, row_of
from .reference_cache import ReferenceCache
from .text_columns import rows_of
from .threads import fill_all, slices_of
from .workspaces import borrow_room, borrow_workspace

__all__ = [
    "MAX_REFERENCE_BYTES",
    "ReferenceReader",
    "issues_of_all",
    "parse_references",
    "read_what_can_be_read",
    "reference_issues",
]

MAX_REFERENCE_BYTES = 262_144

CACHE = ReferenceCache(1 << 25)
"""Of the whole process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CACHE.renew)

PART_ROWS = 256
"""Most references that a thread reads at once."""

UNLIMITED = 2**62
"""Larger limits are no limits, and this one is still a machine integer."""

_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "line {line} is not an action with objects and parameters",
}


class ReferenceReader:
    """Reads `rows` references in parts, on any threads, and remembers which are none."""

    def __init__(self, rows: int, max_steps: int, max_bytes: int) -> None:
        self._max_steps, self._max_bytes = max_steps, max_bytes
        self._statuses = np.zeros(rows, np.uint8)
        self._bad_lines = np.zeros(rows, np.int64)
        self._over = np.zeros(rows, np.bool_)
        self.failed = False
        """Whether a bad one has been met."""

    def read(self, part: TextColumn, first: int) -> References:
        """The references of `part`, which are those from `first` on, in memory that this thread uses again for its
        next part. A bad one has no steps.
        """
        rows = slice(first, first + part.rows)
        over = self._over[rows]
        np.greater(part.lengths, self._max_bytes, out=over)
        if over.any():
            part = _without(part, over)
        room = borrow_room(part)
        space = borrow_workspace(int(part.lengths.max(initial=0)))
        limit = min(self._max_steps, UNLIMITED)
        read_references(self._statuses[rows], self._bad_lines[rows], room, *part, limit, tables(), space)
        if over.any() or (self._statuses[rows] != OK).any():
            self.failed = True
        return room

    def issues(self) -> list[Issue]:
        """What is wrong with the references that have been read, in order."""
        issues = []
        for row in np.flatnonzero((self._statuses != OK) | self._over).tolist():
            if self._over[row]:
                reason, detail = "too_long", f"it has more than {self._max_bytes} bytes"
            else:
                reason = REASONS[self._statuses[row]]
                detail = _DETAILS[reason].format(line=int(self._bad_lines[row]) + 1, max_steps=self._max_steps)
            issues.append(Issue(f"references[{row}]", reason, detail))
        return issues

    def check(self) -> None:
        """Raise InvalidReference naming every bad one, in order."""
        if self.failed:
            raise InvalidReference(self.issues())


def parse_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> References:
    """Read every reference once; raises InvalidReference naming each bad one as `references[k]`, in order."""

    def read() -> References:
        references, issues = read_what_can_be_read(column, max_steps, max_bytes, threads)
        if issues:
            raise InvalidReference(issues)
        return references

    return CACHE.get(column, (max_steps, max_bytes), read)


def reference_issues(column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES) -> list[Issue]:
    """What is wrong with the references of `column`, in order."""
    return read_what_can_be_read(column, max_steps, max_bytes)[1]


def issues_of_all(column: TextColumn, misshapen: Sequence[Issue], max_steps: int) -> list[Issue]:
    """References of a wrong shape, whose text in `column` is empty, and unreadable ones: each once, in order."""
    named = {issue.path for issue in misshapen}
    found = reference_issues(column, max_steps)
    return sorted([*misshapen, *(issue for issue in found if issue.path not in named)], key=row_of)


def read_what_can_be_read(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> tuple[References, list[Issue]]:
    """All references, those that cannot be read without any step, and what is wrong with those, in order."""
    reader = ReferenceReader(column.rows, max_steps, max_bytes)
    parts = {}

    def read_part(first: int, last: int) -> None:
        parts[first] = trim(reader.read(rows_of(column, first, last), first))

    fill_all(read_part, slices_of(column.rows, threads, PART_ROWS) or [(0, 0)], threads)
    return concatenate([parts[first] for first in sorted(parts)]), reader.issues()


def _without(column: TextColumn, dropped: np.ndarray) -> TextColumn:
    """The column with the marked texts emptied."""
    lengths = np.where(dropped, 0, column.lengths)
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    kept = np.repeat(~dropped, column.lengths)
    first, last = column.offsets[0], column.offsets[-1]
    return TextColumn.of(column.data[first:last][kept], offsets)

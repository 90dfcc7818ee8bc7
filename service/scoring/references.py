"""References read for scoring: every invalid one is an error of the whole request."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np

from ...kernels.column import TextColumn
from ...kernels.reading.references import References, concatenate, read_references, trim
from ...kernels.status import OK, REASONS
from ...kernels.text.unicode_tables import tables
from ..errors import InvalidReference, Issue, row_of
from .text_columns import rows_of, wrong_fields
from .threads import fill_all, slices_of
from .workspaces import borrow_room, borrow_workspace

__all__ = [
    "MAX_REFERENCE_BYTES",
    "ReferenceReader",
    "issues_of_all",
    "parse_references",
    "parse_valid_references",
]

MAX_REFERENCE_BYTES = 262_144
MAX_ROWS = 256  # references that a thread reads at once
UNLIMITED = 2**62  # yet fits an int64

_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step: a line such as 'Step 1: {{...}}' is needed",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "line {line}: {fields}",
}

MAX_EXPLAINED = 100
"""References whose wrong fields are named: bounds the time."""

MAX_LINE_BYTES = 4096
_FIELDS = "it must be an action with at least one word, objects and parameters, and nothing else"


class ReferenceReader:
    """Reads references in chunks from any thread and records which ones are invalid."""

    def __init__(self, rows: int, max_steps: int, max_bytes: int) -> None:
        self._max_steps, self._max_bytes = max_steps, max_bytes
        self._statuses = np.zeros(rows, np.uint8)
        self._bad_lines = np.zeros(rows, np.int64)
        self._too_long = np.zeros(rows, np.bool_)
        self._wrong_fields: dict[int, str] = {}
        self._explained_below = rows
        self.failed = False

    def read(self, chunk: TextColumn, first: int) -> References:
        """Read `chunk`, whose first reference is number `first`; an invalid reference has no steps.

        The result is valid until this thread reads the next chunk.
        """
        rows = slice(first, first + chunk.rows)
        longest = int(chunk.lengths.max(initial=0))
        if longest > self._max_bytes:
            self.failed = True
            np.greater(chunk.lengths, self._max_bytes, out=self._too_long[rows])
            chunk = _emptied(chunk, self._too_long[rows])
            longest = int(chunk.lengths.max(initial=0))
        references, statuses = borrow_room(chunk), self._statuses[rows]
        limit, workspace = min(self._max_steps, UNLIMITED), borrow_workspace(longest)
        read_references(statuses, self._bad_lines[rows], references, *chunk, limit, tables(), workspace)
        if statuses.any():
            self.failed = True
            if first < self._explained_below:
                self._explain(chunk, first, np.flatnonzero(statuses == REASONS.index("bad_step_schema")))
        return references

    def _explain(self, chunk: TextColumn, first: int, rows: np.ndarray) -> None:
        """Record the wrong fields of rows of a chunk, and stop at the row that completes MAX_EXPLAINED."""
        for row in rows[:MAX_EXPLAINED].tolist():
            text = chunk.data[chunk.offsets[row] : chunk.offsets[row + 1]].tobytes()
            self._wrong_fields[first + row] = _wrong_fields(text, int(self._bad_lines[first + row]))
        explained = sorted(self._wrong_fields.copy())  # other threads add rows
        if len(explained) >= MAX_EXPLAINED:
            self._explained_below = explained[MAX_EXPLAINED - 1] + 1

    def issues(self) -> list[Issue]:
        issues = []
        fields = dict(sorted(self._wrong_fields.items())[:MAX_EXPLAINED])
        for row in np.flatnonzero((self._statuses != OK) | self._too_long).tolist():
            if self._too_long[row]:
                reason, detail = "too_long", f"it has more than {self._max_bytes} bytes"
            else:
                reason = REASONS[self._statuses[row]]
                detail = _DETAILS[reason].format(
                    line=int(self._bad_lines[row]) + 1,
                    max_steps=self._max_steps,
                    fields=fields.get(row, _FIELDS),
                )
            issues.append(Issue(f"references[{row}]", reason, detail))
        return issues

    def check(self) -> None:
        if self.failed:
            raise InvalidReference(self.issues())


def parse_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> References:
    """Parse all references; raises InvalidReference naming each invalid one as `references[k]`, in order."""
    references, issues = parse_valid_references(column, max_steps, max_bytes, threads)
    if issues:
        raise InvalidReference(issues)
    return references


def issues_of_all(
    column: TextColumn, malformed: Sequence[Issue], max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES
) -> list[Issue]:
    """Merge the issues of malformed references, whose text in `column` is empty, with issues of invalid texts."""
    named = {issue.path for issue in malformed}
    _, issues = parse_valid_references(column, max_steps, max_bytes)
    return sorted([*malformed, *(issue for issue in issues if issue.path not in named)], key=row_of)


def parse_valid_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> tuple[References, list[Issue]]:
    """Parse all references; return them, the invalid ones without steps, and the issues of these, in order."""
    reader = ReferenceReader(column.rows, max_steps, max_bytes)
    chunks = {}

    def read_chunk(first: int, last: int) -> None:
        chunks[first] = trim(reader.read(rows_of(column, first, last), first))

    fill_all(read_chunk, slices_of(column.rows, threads, MAX_ROWS) or [(0, 0)], threads)
    return concatenate([chunks[first] for first in sorted(chunks)]), reader.issues() if reader.failed else []


def _wrong_fields(text: bytes, line: int) -> str:
    lines = text.split(b"\n", line + 1)
    step = lines[line] if line < len(lines) else b""
    try:
        value = json.loads(step[step.index(b"{") :]) if len(step) <= MAX_LINE_BYTES else None
    except (ValueError, RecursionError):
        value = None
    return (wrong_fields(value) if isinstance(value, dict) else None) or _FIELDS


def _emptied(column: TextColumn, mask: np.ndarray) -> TextColumn:
    lengths = np.where(mask, 0, column.lengths)
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    remaining = np.repeat(~mask, column.lengths)
    first, last = column.offsets[0], column.offsets[-1]
    return TextColumn.of(column.data[first:last][remaining], offsets)

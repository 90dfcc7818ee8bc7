"""References read for scoring: every unreadable one is an error of the whole request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kernels.column import TextColumn
from kernels.references import References, joined, read_references, trimmed
from kernels.status import OK, REASONS
from kernels.tables import tables

from .columns import passing_column
from .errors import InvalidReference, Offence
from .reference_cache import ReferenceCache
from .slices import fill_in_slices
from .workspaces import borrow_room, borrow_workspace

__all__ = [
    "MAX_REFERENCE_BYTES",
    "PART_ROWS",
    "parse_references",
    "parse_texts",
    "read_what_can_be_read",
    "reference_offences",
]

MAX_REFERENCE_BYTES = 262_144

CACHE = ReferenceCache(1 << 25)
"""Of the whole process."""

PART_ROWS = 256
"""References that a thread reads at once: they come as one piece of the columns that are joined in the end."""

MOST = 2**62
"""Larger limits are no limits, and this one is still a machine integer."""

_DETAILS = {
    "too_long": "it has more than {max_steps} steps",
    "no_steps": "it has no step",
    "bad_step_line": "line {line} is not of the form 'Step N: {{...}}'",
    "bad_step_json": "the braces of line {line} do not hold one valid JSON object",
    "bad_step_schema": "line {line} is not an action with objects and parameters",
}


def parse_references(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> References:
    """Read every reference once; raises InvalidReference naming each bad one as `references[k]`, in order."""

    def read() -> References:
        return sound(read_what_can_be_read(column, max_steps, max_bytes, threads))

    return CACHE.get(column, (max_steps, max_bytes), read)


def parse_texts(
    texts: Sequence[str], max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> References:
    """The same of many Python strings: while one thread encodes, which takes the interpreter, the others read."""
    return sound(
        read_parts(lambda first, last: passing_column(texts[first:last]), len(texts), max_steps, max_bytes, threads)
    )


def sound(outcome: tuple[References, list[Offence]]) -> References:
    """References of which none is bad; raises InvalidReference."""
    references, offences = outcome
    if offences:
        raise InvalidReference(offences)
    return references


def reference_offences(column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES) -> list[Offence]:
    """What is wrong with the references of `column`, in order."""
    return read_what_can_be_read(column, max_steps, max_bytes)[1]


def read_what_can_be_read(
    column: TextColumn, max_steps: int, max_bytes: int = MAX_REFERENCE_BYTES, threads: int = 1
) -> tuple[References, list[Offence]]:
    """All references, those that cannot be read without any step, and what is wrong with those, in order."""
    return read_parts(partial(_rows_of, column), column.rows, max_steps, max_bytes, threads)


def read_parts(
    part_of: Callable[[int, int], TextColumn], rows: int, max_steps: int, max_bytes: int, threads: int
) -> tuple[References, list[Offence]]:
    """As above, of `rows` references that come in parts: `part_of(first, last)` is asked for each once, on the thread
    that reads it.
    """
    statuses = np.zeros(rows, np.uint8)
    bad_lines = np.zeros(rows, np.int64)
    over = np.zeros(rows, np.bool_)
    parts = {}

    def read_part(first: int, last: int) -> None:
        part = part_of(first, last)
        over[first:last] = part.lengths > max_bytes
        if over[first:last].any():
            part = _without(part, over[first:last])
        room = borrow_room(part)
        space = borrow_workspace(int(part.lengths.max(initial=0)))
        found = statuses[first:last], bad_lines[first:last]
        read_references(*found, room, *part, min(max_steps, MOST), tables(), space)
        parts[first] = trimmed(room)

    fill_in_slices(read_part, rows, threads, PART_ROWS)
    if not rows:
        read_part(0, 0)
    references = joined([parts[first] for first in sorted(parts)])
    offences = []
    for row in np.flatnonzero((statuses != OK) | over).tolist():
        if over[row]:
            reason, detail = "too_long", f"it has more than {max_bytes} bytes"
        else:
            reason = REASONS[statuses[row]]
            detail = _DETAILS[reason].format(line=int(bad_lines[row]) + 1, max_steps=max_steps)
        offences.append(Offence(f"references[{row}]", reason, detail))
    return references, offences


def _rows_of(column: TextColumn, first: int, last: int) -> TextColumn:
    return TextColumn(column.data, column.offsets[first : last + 1])


def _without(column: TextColumn, dropped: np.ndarray) -> TextColumn:
    """The column with the marked texts emptied."""
    lengths = np.where(dropped, 0, column.lengths)
    offsets = np.zeros(column.rows + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    kept = np.repeat(~dropped, column.lengths)
    first, last = column.offsets[0], column.offsets[-1]
    return TextColumn.of(column.data[first:last][kept], offsets)

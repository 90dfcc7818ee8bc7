"""Parsed references as columns: what scoring needs of each, read once however many responses point at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..column import TextColumn, frozen
from ..compiler.jit import helper, hot_kernel, inlined
from ..memory.sparse import sparse
from ..memory.workspace import (
    CANON,
    CANON_USED,
    COUNTS,
    HASHES,
    HEADS,
    IDS,
    IDS_USED,
    LENGTHS,
    OBJECTS,
    OBJECTS_USED,
    STARTS,
    STEP_ROWS,
    STRINGS_USED,
)
from ..status import KEY_NUMBERING, OK, TOO_LONG
from ..text.interning import reset, same_bytes
from ..text.lines import has_more_lines
from .key_steps import read_key_steps
from .sections import FOUND, find_sections

__all__ = [
    "CANON_AT",
    "ID_AT",
    "OBJECT_AT",
    "SLOT_AT",
    "STEP_AT",
    "STRING_AT",
    "References",
    "allocate",
    "allocate_for",
    "concatenate",
    "find_string",
    "read_reference",
    "read_references",
    "trim",
]

# Columns of `ranges`: where a reference begins in `steps`, `ids`, `objects`, the strings' columns, `slots` and `canon`.
STEP_AT, ID_AT, OBJECT_AT, STRING_AT, SLOT_AT, CANON_AT = range(6)
FREE = -1
NOT_PREFILLED = np.bool_(False)
PLAIN_COLUMNS = ("ids", "objects", "starts", "lengths", "heads", "slots")


class References(NamedTuple):
    """R references, read only. Within one, ids and positions count from the beginning of its own ranges."""

    ranges: np.ndarray  # int64 (R + 1, 6)
    steps: np.ndarray  # int64 (7, steps), see `workspace.py`
    ids: np.ndarray  # int64: words of the steps, as strings
    objects: np.ndarray  # int64: objects of the steps, as strings
    starts: np.ndarray  # int64: where each distinct word begins in the reference's part of `canon`
    lengths: np.ndarray  # int64, or PAIR, see `vocabulary.py`
    heads: np.ndarray  # int64
    slots: (
        np.ndarray
    )  # int64: open addressing of a reference's strings by hash, a power of two slots each, FREE or a string
    canon: np.ndarray  # uint8

    @property
    def rows(self) -> int:
        """Number of references."""
        return self.ranges.shape[0] - 1

    @property
    def step_counts(self) -> np.ndarray:
        """int64 (R,): steps of each reference."""
        return np.diff(self.ranges[:, STEP_AT])

    @property
    def widest(self) -> int:
        """Most steps, words, objects or distinct strings that any one reference has."""
        return int((self.ranges[1:, :SLOT_AT] - self.ranges[:-1, :SLOT_AT]).max(initial=0))

    @property
    def nbytes(self) -> int:
        """Memory of all columns in bytes."""
        return sum(column.nbytes for column in self)


@helper
def copy(source, count, target, pos):
    """Copy `source[:count]` to `target[pos:]`."""
    for k in range(count):
        target[pos + k] = source[k]


@helper
def write_hash_table(hashes, strings, slots, pos):
    """Write the hash table of `strings` strings to `slots[pos:]`; returns where it ends."""
    size = 2
    while size < 2 * strings:
        size *= 2
    for slot in range(size):
        slots[pos + slot] = FREE
    for string in range(strings):
        slot = hashes[string] & (size - 1)
        while slots[pos + slot] != FREE:
            slot = (slot + 1) & (size - 1)
        slots[pos + slot] = string
    return pos + size


@inlined
def find_string(references, row, text, start, length, head, digest):
    """The string of reference `row` that is the word `text[start:start + length]`, or the pair `head`; or FREE.

    `digest` is its hash, `head` of a word its first eight bytes.
    """
    ranges = references.ranges
    first_string, first_slot = ranges[row, STRING_AT], ranges[row, SLOT_AT]
    mask = ranges[row + 1, SLOT_AT] - first_slot - 1
    slot = digest & mask
    while True:
        string = references.slots[first_slot + slot]
        if string == FREE:
            return np.int64(FREE)
        pos = first_string + string
        if references.heads[pos] == head and references.lengths[pos] == length:
            begin = ranges[row, CANON_AT] + references.starts[pos] + 8
            if length <= 8 or same_bytes(references.canon, begin, text, start + 8, length - 8):
                return string
        slot = (slot + 1) & mask


@helper
def append_reference(workspace, steps, references, row):
    """Copy the text just read into the columns of `references` as row `row`."""
    ints = workspace.ints
    ranges = references.ranges
    strings = ints[COUNTS, STRINGS_USED]
    copy(ints[IDS], ints[COUNTS, IDS_USED], references.ids, ranges[row, ID_AT])
    copy(ints[OBJECTS], ints[COUNTS, OBJECTS_USED], references.objects, ranges[row, OBJECT_AT])
    copy(ints[STARTS], strings, references.starts, ranges[row, STRING_AT])
    copy(ints[LENGTHS], strings, references.lengths, ranges[row, STRING_AT])
    copy(ints[HEADS], strings, references.heads, ranges[row, STRING_AT])
    copy(workspace.bytes[CANON], ints[COUNTS, CANON_USED], references.canon, ranges[row, CANON_AT])
    for c in range(STEP_ROWS):
        copy(ints[c], steps, references.steps[c], ranges[row, STEP_AT])
    ranges[row + 1, STEP_AT] = ranges[row, STEP_AT] + steps
    ranges[row + 1, ID_AT] = ranges[row, ID_AT] + ints[COUNTS, IDS_USED]
    ranges[row + 1, OBJECT_AT] = ranges[row, OBJECT_AT] + ints[COUNTS, OBJECTS_USED]
    ranges[row + 1, STRING_AT] = ranges[row, STRING_AT] + strings
    ranges[row + 1, SLOT_AT] = write_hash_table(ints[HASHES], strings, references.slots, ranges[row, SLOT_AT])
    ranges[row + 1, CANON_AT] = ranges[row, CANON_AT] + ints[COUNTS, CANON_USED]


@helper
def read_reference(workspace, tables, data, start, stop, references, row, max_steps):
    """Read the reference `data[start:stop]` into row `row` of `references`: (status, bad line); see below."""
    reset(workspace)
    found, key_start, key_stop, _, _ = find_sections(data, start, stop, NOT_PREFILLED)
    if found != FOUND:
        key_start, key_stop = start, stop
    steps = bad_line = np.int64(0)
    if has_more_lines(data, key_start, key_stop, max_steps):
        status = TOO_LONG
    else:
        status, steps, bad_line = read_key_steps(workspace, tables, data, key_start, key_stop)
    if status == KEY_NUMBERING:
        status = OK
    if status != OK:
        reset(workspace)
        steps = np.int64(0)
    append_reference(workspace, steps, references, row)
    return status, bad_line


@hot_kernel
def read_references(statuses, bad_lines, references, data, offsets, max_steps, tables, workspace):
    """Read reference texts (SCORE.md section 1) into the columns of `references`, which have room for them.

    statuses: uint8 (R,), written: OK, or why the reference is none. bad_lines: int64 (R,), written: the bad line among
    the non-blank ones, from 0. data, offsets: the text column. A bad reference takes no room. Step numbers do not
    matter; more than `max_steps` lines are TOO_LONG.
    """
    for row in range(statuses.shape[0]):
        start, stop = offsets[row], offsets[row + 1]
        statuses[row], bad_lines[row] = read_reference(workspace, tables, data, start, stop, references, row, max_steps)


def allocate_for(column: TextColumn) -> References:
    """Columns with room for whatever the texts of `column` may hold; untouched pages cost nothing."""
    return allocate(int(column.offsets[-1] - column.offsets[0]), column.rows)


def allocate(max_bytes: int, rows: int) -> References:
    """Columns with room for `rows` references of `max_bytes` bytes together."""
    size = max_bytes + 64 * rows + 64
    ints = np.int64
    return References(
        ranges=np.zeros((rows + 1, 6), ints),
        steps=sparse((STEP_ROWS, size // 8 + 2), ints),
        ids=sparse((2 * size,), ints),
        objects=sparse((size,), ints),
        starts=sparse((3 * size,), ints),
        lengths=sparse((3 * size,), ints),
        heads=sparse((3 * size,), ints),
        slots=sparse((12 * size,), ints),
        canon=sparse((16 * size,), np.uint8),
    )


def trim(room: References) -> References:
    """Copies of what is in use, read only; `canon` goes on for the eight bytes that a load may reach beyond its end."""
    steps, ids, objects, strings, slots, canon = (int(end) for end in room.ranges[-1])
    return References(
        ranges=frozen(room.ranges, np.int64),
        steps=frozen(room.steps[:, :steps].copy(), np.int64),
        ids=frozen(room.ids[:ids].copy(), np.int64),
        objects=frozen(room.objects[:objects].copy(), np.int64),
        starts=frozen(room.starts[:strings].copy(), np.int64),
        lengths=frozen(room.lengths[:strings].copy(), np.int64),
        heads=frozen(room.heads[:strings].copy(), np.int64),
        slots=frozen(room.slots[:slots].copy(), np.int64),
        canon=frozen(room.canon[: canon + 8].copy(), np.uint8),
    )


def concatenate(parts: Sequence[References]) -> References:
    """The references of several parts, one part after the other, read only."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.ranges[-1] for part in parts], axis=0)
    ranges = [parts[0].ranges, *(part.ranges[1:] + end for part, end in zip(parts[1:], ends[:-1], strict=True))]
    canon = [part.canon[: part.ranges[-1, CANON_AT]] for part in parts]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in PLAIN_COLUMNS}
    return References(
        ranges=frozen(np.concatenate(ranges), np.int64),
        steps=frozen(np.concatenate([part.steps for part in parts], axis=1), np.int64),
        canon=frozen(np.concatenate([*canon, np.zeros(8, np.uint8)]), np.uint8),
        **{name: frozen(column, np.int64) for name, column in columns.items()},
    )

"""References: parsed once a batch, and kept in slots between short requests.

The hash of a reference selects one slot, which it overwrites. A slot is a row of `References` and the empty row after
it, so that the end of a row does not depend on the next slot.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..column import frozen
from ..compiler import helper, inlined
from ..json_scanner import begins_object
from ..memory import (
    ACTION,
    BY_ACTION,
    CANON,
    CANON_USED,
    COUNTS,
    HASHES,
    HEADS,
    IDS,
    IDS_USED,
    LENGTHS,
    OBJECT_START,
    OBJECT_STOP,
    OBJECT_WORDS,
    OBJECTS,
    OBJECTS_USED,
    PARAMETER_WORDS,
    STAMP,
    STAMPS,
    STARTS,
    STEP_ROWS,
    STRINGS_USED,
    TERM_STOP,
    WORD_STOP,
    WORDS,
    hash_word,
    head_of,
    read_only,
    sparse,
    tail_of,
)
from ..rules import KEY_NUMBERING, OK, TOO_LONG
from ..text.interning import reset, same_bytes
from ..text.lines import has_more_lines
from ..text.quantities import dimension_of
from .response import FOUND, find_sections
from .steps import read_key_steps

# Columns of `ranges`: start of a reference in `steps`, `ids`, `objects`, the strings' columns, `slots` and `canon`.
STEP_AT, ID_AT, OBJECT_AT, STRING_AT, SLOT_AT, CANON_AT = range(6)
FREE = -1
NOT_PREFILLED = np.bool_(False)


class References(NamedTuple):
    """R references, read only. Ids and positions of a reference are relative to the starts of its ranges."""

    ranges: np.ndarray  # int64 (R + 1, 6)
    steps: np.ndarray  # int64 (9, steps), see `memory.py`
    ids: np.ndarray  # int64: words of the steps, and terms of the parameters, as strings, see `append_dimension_counts`
    objects: np.ndarray  # int64: objects of the steps, as strings
    starts: np.ndarray  # int64: start of each distinct word in the reference's part of `canon`
    lengths: np.ndarray  # int64, or PAIR, see `interning.py`
    heads: np.ndarray  # int64
    slots: np.ndarray  # int64: a hash table of each reference's strings, a power of two slots, FREE or a string
    canon: np.ndarray  # uint8

    @property
    def step_counts(self) -> np.ndarray:
        """Return the number of steps of each reference, int64 (R,)."""
        return np.diff(self.ranges[:, STEP_AT])

    @property
    def widest(self) -> int:
        """Return the maximum of steps, words, objects or distinct strings of any one reference."""
        return int((self.ranges[1:, :SLOT_AT] - self.ranges[:-1, :SLOT_AT]).max(initial=0))

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self)


@helper
def copy(source, count, target, start):
    """Copy `source[:count]` to `target[start:]`."""
    for k in range(count):
        target[start + k] = source[k]


@helper
def write_hash_table(hashes, strings, slots, start):
    """Write the hash table of `strings` strings to `slots[start:]`; returns its end."""
    size = 2
    while size < 2 * strings:
        size *= 2
    for slot in range(size):
        slots[start + slot] = FREE
    for string in range(strings):
        slot = hashes[string] & (size - 1)
        while slots[start + slot] != FREE:
            slot = (slot + 1) & (size - 1)
        slots[start + slot] = string
    return start + size


@inlined
def find_string(references, row, text, start, length, head, digest):
    """Return the string of reference `row` for the word `text[start:start + length]`, or the pair `head`; or FREE.

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
        index = first_string + string
        if references.heads[index] == head and references.lengths[index] == length:
            begin = ranges[row, CANON_AT] + references.starts[index] + 8
            if length <= 8 or same_bytes(references.canon, begin, text, start + 8, length - 8):
                return string
        slot = (slot + 1) & mask


WIDE = 64
"""Strings of a step's set, or steps of a reference, up to which responses are compared with all of them. More are
sorted when the reference is read, and searched: the cost of a response does not depend on the reference."""


@inlined
def next_stamp(ints):
    """Return a fresh stamp; neither it nor the next one occurs in STAMPS."""
    ints[COUNTS, STAMP] += 2
    return ints[COUNTS, STAMP]


@helper
def sift_down(values, root, stop):
    """Restore the heap `values[:stop]`, in which only `root` may be smaller than its children."""
    value = values[root]
    child = 2 * root + 1
    while child < stop:
        if child + 1 < stop and values[child] < values[child + 1]:
            child += 1
        if values[child] <= value:
            break
        values[root] = values[child]
        root = child
        child = 2 * root + 1
    values[root] = value


@helper
def sort(values):
    """Sort int64 values in place. Most are sorted already: strings are numbered in the order of the text."""
    size = np.int64(values.shape[0])
    ascending = True
    for k in range(1, size):
        ascending = ascending and values[k - 1] <= values[k]
    if ascending:
        return
    for root in range(size // 2 - 1, -1, -1):
        sift_down(values, root, size)
    for stop in range(size - 1, 0, -1):
        values[0], values[stop] = values[stop], values[0]
        sift_down(values, np.int64(0), stop)


@helper
def first_at_least(values, value):
    """Return the index of the first of ascending int64 values that is at least `value`; their number if none is."""
    low, high = np.int64(0), np.int64(values.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def move_set(ints, row, start, stop, used):
    """Move the strings `ints[row, start:stop]` to `ints[row, used:]`, wide ones each once and ascending; returns the
    end of them.
    """
    first, is_wide, stamp = used, stop - start > WIDE, next_stamp(ints)
    for k in range(start, stop):
        string = ints[row, k]
        if not is_wide or ints[STAMPS, string] != stamp:
            ints[STAMPS, string] = stamp
            ints[row, used] = string
            used += 1
    if used - first > WIDE:
        sort(ints[row, first:used])
    return used


@helper
def append_dimension_counts(ints, first, stop):
    """Append to the distinct terms IDS[first:stop] the number of their quantities, of their dimensions, and these,
    ascending, as dimension << 32 | number of quantities. Returns the end of what is appended.
    """
    used = stop + 2
    for k in range(first, stop):
        string = ints[IDS, k]
        dimension = dimension_of(ints[HEADS, string], ints[LENGTHS, string], ints[HEADS], ints[LENGTHS], np.int64(0))
        if dimension >= 0:
            ints[IDS, used] = dimension << 32
            used += 1
    ints[IDS, stop] = used - stop - 2
    sort(ints[IDS, stop + 2 : used])
    end = stop + 2
    for k in range(stop + 2, used):
        if k > stop + 2 and ints[IDS, k] >> 32 == ints[IDS, end - 1] >> 32:
            ints[IDS, end - 1] += 1
        else:
            ints[IDS, end] = ints[IDS, k] + 1
            end += 1
    ints[IDS, stop + 1] = end - stop - 2
    return end


@helper
def has_wide_step(ints, steps):
    """Return whether a step in the workspace may have a wide set."""
    for j in range(steps):
        if ints[TERM_STOP, j] - ints[WORDS, j] > WIDE or ints[OBJECT_STOP, j] - ints[OBJECT_START, j] > WIDE:
            return True
    return False


@helper
def sort_wide_sets(ints, steps):
    """Remove repeated strings from the wide sets of the steps in the workspace, and sort these."""
    words = objects = np.int64(0)
    for j in range(steps):
        start, ints[WORDS, j] = ints[WORDS, j], words
        for end in (OBJECT_WORDS, PARAMETER_WORDS, WORD_STOP, TERM_STOP):
            words = move_set(ints, IDS, start, ints[end, j], words)
            start, ints[end, j] = ints[end, j], words
        if ints[TERM_STOP, j] - ints[WORD_STOP, j] > WIDE:
            words = append_dimension_counts(ints, ints[WORD_STOP, j], words)
        start, ints[OBJECT_START, j] = ints[OBJECT_START, j], objects
        objects = move_set(ints, OBJECTS, start, ints[OBJECT_STOP, j], objects)
        ints[OBJECT_STOP, j] = objects
    ints[COUNTS, IDS_USED] = words
    ints[COUNTS, OBJECTS_USED] = objects


@helper
def prepare_reference(ints, steps):
    """Prepare the steps in the workspace to be compared with any number of responses."""
    if has_wide_step(ints, steps):
        sort_wide_sets(ints, steps)
    for j in range(steps):
        ints[BY_ACTION, j] = ints[ACTION, j] << 32 | j
    if steps > WIDE:
        sort(ints[BY_ACTION, :steps])


@helper
def append_reference(workspace, steps, references, row):
    """Copy the steps in the workspace into the columns of `references` as row `row`."""
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
def read_reference(workspace, tables, data, start, stop, references, row, max_steps, quantities):
    """Read the reference `data[start:stop]` into row `row` of `references`: (status, bad line from 0)."""
    reset(workspace)
    key_start, key_stop = start, stop
    if not begins_object(data, start, stop):  # else it is no text of a reference, whatever follows
        outcome, first, last, _, _ = find_sections(data, start, stop, NOT_PREFILLED)
        if outcome == FOUND:
            key_start, key_stop = first, last
    steps = bad_line = np.int64(0)
    if has_more_lines(data, key_start, key_stop, max_steps):
        status = TOO_LONG
    else:
        status, steps, bad_line = read_key_steps(workspace, tables, data, key_start, key_stop, quantities)
    if status == KEY_NUMBERING:
        status = OK
    if status != OK:
        reset(workspace)
        steps = np.int64(0)
    prepare_reference(workspace.ints, steps)
    append_reference(workspace, steps, references, row)
    return status, bad_line


def allocate(max_bytes: int, rows: int) -> References:
    """Allocate columns for `rows` references of `max_bytes` bytes together; untouched pages take no memory."""
    return References(*[column[0] for column in allocate_rooms(1, max_bytes, rows)])


def allocate_rooms(threads: int, max_bytes: int, rows: int) -> References:
    """Allocate the columns of `allocate` for each of several threads, side by side."""
    size = max_bytes + 64 * rows + 64
    ints = np.int64
    return References(
        ranges=np.zeros((threads, rows + 1, 6), ints),
        steps=sparse((threads, STEP_ROWS, size // 8 + 2), ints),
        ids=sparse((threads, 3 * size), ints),
        objects=sparse((threads, size), ints),
        starts=sparse((threads, 3 * size), ints),
        lengths=sparse((threads, 3 * size), ints),
        heads=sparse((threads, 3 * size), ints),
        slots=sparse((threads, 12 * size), ints),
        canon=sparse((threads, 16 * size), np.uint8),
    )


def trim(room: References, rows: int) -> References:
    """Return read-only copies of the first `rows` references; `canon` has eight more bytes, because loads may read past
    its end.
    """
    steps, ids, objects, strings, slots, canon = (int(end) for end in room.ranges[rows])
    return References(
        ranges=frozen(room.ranges[: rows + 1].copy(), np.int64),
        steps=frozen(room.steps[:, :steps].copy(), np.int64),
        ids=frozen(room.ids[:ids].copy(), np.int64),
        objects=frozen(room.objects[:objects].copy(), np.int64),
        starts=frozen(room.starts[:strings].copy(), np.int64),
        lengths=frozen(room.lengths[:strings].copy(), np.int64),
        heads=frozen(room.heads[:strings].copy(), np.int64),
        slots=frozen(room.slots[:slots].copy(), np.int64),
        canon=frozen(room.canon[: canon + 8].copy(), np.uint8),
    )


SLOT_COUNT = 64
MAX_SLOT_BYTES = 8192
"""Bytes of the longest reference that is cached, which has fewer steps than any limit."""

FIRST_FREE_ROW = 2 * SLOT_COUNT
"""Rows from here on are not cache slots."""

EMPTY = -1


class ReferenceSlots(NamedTuple):
    """The text that was read into each slot."""

    texts: np.ndarray  # uint8 (SLOT_COUNT, MAX_SLOT_BYTES + 8)
    lengths: np.ndarray  # int64 (SLOT_COUNT,), EMPTY in an empty slot
    quantities: np.ndarray  # uint8 (SLOT_COUNT,): 1 if it was read with the terms of its parameters


def empty_slots() -> ReferenceSlots:
    texts = np.zeros((SLOT_COUNT, MAX_SLOT_BYTES + 8), np.uint8)
    return ReferenceSlots(texts, np.full(SLOT_COUNT, EMPTY, np.int64), np.zeros(SLOT_COUNT, np.uint8))


def allocate_with_slots(max_bytes: int, rows: int) -> References:
    """Allocate columns for the slots and, after them, for `rows` references of `max_bytes` bytes together."""
    each = MAX_SLOT_BYTES + 128
    room = allocate(SLOT_COUNT * (each + 128) + max_bytes, FIRST_FREE_ROW + rows)
    strides = np.zeros(6, np.int64)
    strides[[STEP_AT, ID_AT, OBJECT_AT]] = each // 8 + 2, 3 * each, each
    strides[[STRING_AT, SLOT_AT, CANON_AT]] = 3 * each, 12 * each, 16 * each  # as `allocate` has them
    room.ranges[: FIRST_FREE_ROW + 1 : 2] = np.arange(SLOT_COUNT + 1)[:, None] * strides
    return room


@inlined
def slot_row(text, start, length, seed):
    """Return the row of the cache slot of `text[start:start + length]`, or FIRST_FREE_ROW if it is too long."""
    if length == 0 or length > MAX_SLOT_BYTES:
        return np.int64(FIRST_FREE_ROW)
    head, tail = head_of(text, start, length), tail_of(text, start, length)
    return 2 * (hash_word(text, start, length, head, tail, seed) & (SLOT_COUNT - 1))


@inlined
def holds_reference(slots, row, text, start, length, quantities):
    """Return whether the row, the reference's `slot_row`, holds it, read with or without `quantities`."""
    if row == FIRST_FREE_ROW:
        return False
    slot = row >> 1
    if slots.lengths[slot] != length or slots.quantities[slot] != quantities:
        return False
    return same_bytes(read_only(slots.texts[slot]), 0, text, start, length)


@inlined
def invalidate(slots, row):
    """Invalidate this slot before another reference is read into it."""
    if row < FIRST_FREE_ROW:
        slots.lengths[row >> 1] = EMPTY


def fill_slot(slots: ReferenceSlots, row: int, text: np.ndarray, length: int, quantities: bool) -> None:
    """Record that this row holds the reference `text[:length]`."""
    if row < FIRST_FREE_ROW:
        slot = row >> 1
        slots.texts[slot, :length] = text[:length]
        slots.lengths[slot] = length
        slots.quantities[slot] = quantities

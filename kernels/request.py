"""A short request in one call, scored in memory that is allocated once.

Anything that it does not handle, valid or not, falls back to the general path, which gives the same answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .batch import (
    LIMITS,
    NEXT_SHARE,
    NEXT_THREAD,
    READS_QUANTITIES,
    REFUSED,
    BatchArrays,
    Texts,
    allocate_memory,
    new_progress,
    score_batch,
)
from .column import TextColumn, frozen
from .compiler import entry, helper, hot_kernel
from .json_columns import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_members
from .json_parts import allocate_parts
from .memory import NEVER
from .reading.references import (
    FIRST_FREE_ROW,
    References,
    ReferenceSlots,
    allocate_with_slots,
    empty_slots,
    fill_slot,
    holds_reference,
    invalidate,
    slot_row,
)
from .score import COMPONENTS, NO_ALTERNATIVES, allocate_entries, allocate_trials
from .text.unicode import tables

USE_GENERAL_PATH = -1
"""Result for every request that the fast path does not handle, valid or not."""

INCLUDE = FIELDS.index("include")


class EnvelopeArrays(NamedTuple):
    """The arrays that `read_request` writes, and read-only views of them, because kernels have one signature."""

    fields: np.ndarray  # int64 (8, 3), see `json_columns.py`
    unknown: np.ndarray  # int64 (2, 2)
    texts: np.ndarray  # uint8 (2, n)
    offsets: np.ndarray  # int64 (2, rows + 1)
    kinds: np.ndarray  # uint8 (2, rows)
    scratch: np.ndarray  # uint8 (n,)
    parts: np.ndarray  # int64 (1, n): no parts
    chosen: np.ndarray  # int64 (rows,): the reference of each response
    reference_rows: np.ndarray  # int64 (rows,): its row in `FastPathRequest.references`
    slots: ReferenceSlots
    seed: np.uint64
    reference_text: np.ndarray  # uint8 (n,): row of `texts`, read only, like `reference_offsets`
    reference_offsets: np.ndarray  # int64 (rows + 1,): row of `offsets`


class FastPathRequest(NamedTuple):
    """The memory of one request at a time."""

    envelope: EnvelopeArrays
    share: np.ndarray  # int64 (1, 4): the only one of `batch`, writable
    reference_index: np.ndarray  # int64 (rows,): `EnvelopeArrays.chosen`
    batch: BatchArrays  # its references are in the rows `EnvelopeArrays.reference_rows` of its memory

    def run(self, batch: BatchArrays, references: int, responses: int) -> bool:
        """Read references, or score responses, of `batch`, which is `self.batch` with other values in some fields;
        return False if a reference is invalid.
        """
        progress, share = batch.progress, self.share
        progress[NEXT_SHARE] = progress[NEXT_THREAD] = progress[REFUSED] = 0
        share[0, 1], share[0, 3] = references, responses
        entry(score_batch)(0, batch)
        return not progress[REFUSED]


def new_request(max_bytes: int, rows: int) -> FastPathRequest:
    """Allocate memory for bodies of up to `max_bytes`, with up to `rows` responses and as many references."""
    texts = np.empty((2, 5 * max_bytes + 64), np.uint8)
    offsets = np.zeros((2, rows + 1), np.int64)
    chosen, reference_rows, share = np.zeros(rows, np.int64), np.zeros(rows, np.int64), np.zeros((1, 4), np.int64)
    columns = [TextColumn.of(texts[field], offsets[field]) for field in (RESPONSES, REFERENCES)]
    room = allocate_with_slots(5 * max_bytes, rows)
    memory = allocate_memory(1, 0, 0, 0, 0, 5 * max_bytes, 5 * max_bytes)
    envelope = EnvelopeArrays(
        fields=np.zeros((len(FIELDS), 3), np.int64),
        unknown=np.zeros((2, 2), np.int64),
        texts=texts,
        offsets=offsets,
        kinds=np.zeros((2, rows), np.uint8),
        scratch=np.empty(max_bytes + 64, np.uint8),
        parts=allocate_parts(0),
        chosen=chosen,
        reference_rows=reference_rows,
        slots=empty_slots(),
        seed=memory.seed,
        reference_text=columns[1].data,
        reference_offsets=columns[1].offsets,
    )
    reasons = np.zeros((1, rows), np.uint8)
    batch = BatchArrays(
        progress=new_progress(),
        shares=frozen(share, np.int64),
        order=np.arange(rows),
        responses=Texts.in_column(columns[0]),
        references=Texts.in_column(columns[1]),
        reference_index=frozen(reference_rows, np.int64),
        alternatives=NO_ALTERNATIVES,
        limits=frozen(np.zeros(LIMITS), np.int64),
        configurations=frozen(np.zeros((1, 23)), np.float64),
        tables=tables(),
        statuses=reasons[0],
        bad_lines=np.zeros(rows, np.int64),
        rewards=np.zeros((1, rows)),
        reasons=reasons,
        components=np.zeros((1, len(COMPONENTS), rows)),
        entries=allocate_entries(1, 0, 0),
        memory=memory._replace(references=References(*[column[None] for column in room])),
        trials=allocate_trials(1, 1, 1),
        stop_flag=NEVER,
    )
    return FastPathRequest(envelope, share, frozen(chosen, np.int64), batch)


@helper
def locate_references(request, expected, rows, quantities):
    """Choose the row of each response's reference; returns the number of references that have to be read."""
    unread = expected
    first = np.int64(FIRST_FREE_ROW)
    if expected == 1:
        text, start, length = request.reference_text, request.reference_offsets[0], request.reference_offsets[1]
        first = slot_row(text, start, length, request.seed)
        if holds_reference(request.slots, first, text, start, length, quantities):
            unread = np.int64(0)
        else:
            invalidate(request.slots, first)
    for k in range(rows):
        request.chosen[k] = k if expected == rows else 0
        request.reference_rows[k] = first + request.chosen[k]
    return unread


@hot_kernel
def read_request(request, body, max_reference_bytes, quantities):
    """Read the request in `body` (uint8, read only): (number of responses or USE_GENERAL_PATH, unread references).

    request: the arrays of the envelope. Handles valid JSON of references, responses and optionally `include`, with one
    reference or one for each response. `read_missing` has to read the unread references before scoring, also with or
    without `quantities`.
    """
    fields = request.fields
    outcome = read_members(
        fields,
        request.unknown,
        request.texts,
        request.offsets,
        request.kinds,
        request.scratch,
        body,
        max_reference_bytes,
        request.parts,
    )
    none = np.int64(0)
    if outcome != READ or request.unknown[0, 0] != 0:
        return USE_GENERAL_PATH, none
    if fields[REFERENCES, SECOND] + fields[RESPONSES, SECOND] != 0:
        return USE_GENERAL_PATH, none
    for field in range(RESPONSES + 1, fields.shape[0]):
        if fields[field, STATE] == VALUE and field != INCLUDE:
            return USE_GENERAL_PATH, none
    rows, expected = fields[RESPONSES, FIRST], fields[REFERENCES, FIRST]
    if rows == 0 or (expected != 1 and expected != rows):
        return USE_GENERAL_PATH, none
    for k in range(expected):
        if request.offsets[REFERENCES, k + 1] - request.offsets[REFERENCES, k] > max_reference_bytes:
            return USE_GENERAL_PATH, none
    return rows, locate_references(request, expected, rows, quantities)


def read_missing(request: FastPathRequest, batch: BatchArrays, unread: int) -> bool:
    """Read the `unread` references of the request into their rows; return False if one of them is invalid."""
    envelope, memory = request.envelope, batch.memory
    first = int(envelope.reference_rows[0])
    ranges = memory.references.ranges[:, first : first + unread + 1]
    memory = memory._replace(references=memory.references._replace(ranges=ranges))
    if not request.run(batch._replace(memory=memory), unread, 0):
        return False
    if unread == 1:
        text, quantities = envelope.reference_text, bool(batch.limits[READS_QUANTITIES])
        fill_slot(envelope.slots, first, text, int(envelope.reference_offsets[1]), quantities)
    return True

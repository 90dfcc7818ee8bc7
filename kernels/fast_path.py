"""Fast path: reads and scores small requests in memory that is allocated once.

Anything it does not handle, valid or not, falls back to the general path, which gives the same answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .column import frozen
from .compiler.jit import entry, helper, hot_kernel
from .json_text.envelope import FIELDS, FIRST, READ, REFERENCES, RESPONSES, SECOND, STATE, VALUE, read_envelope
from .memory.workspace import Workspace, allocate_workspace
from .reading.reference_slots import (
    FIRST_FREE_ROW,
    ReferenceSlots,
    allocate_with_slots,
    empty_slots,
    fill_slot,
    holds_reference,
    invalidate,
    slot_row,
)
from .reading.references import References, read_references
from .score import COMPONENTS

__all__ = ["INCLUDE", "USE_GENERAL_PATH", "FastPathRequest", "new_request", "read_missing", "read_request"]

USE_GENERAL_PATH = -1
"""Result for every request that the fast path does not handle, valid or not."""

INCLUDE = FIELDS.index("include")


class EnvelopeArrays(NamedTuple):
    """The arrays that `read_request` writes, and read-only views of them, because kernels have one signature."""

    fields: np.ndarray  # int64 (8, 3), see `envelope.py`
    unknown: np.ndarray  # int64 (2, 2)
    texts: np.ndarray  # uint8 (2, n)
    offsets: np.ndarray  # int64 (2, rows + 1)
    kinds: np.ndarray  # uint8 (2, rows)
    scratch: np.ndarray  # uint8 (n,)
    chosen: np.ndarray  # int64 (rows,): the reference of each response
    reference_rows: np.ndarray  # int64 (rows,): its row in `FastPathRequest.references`
    slots: ReferenceSlots
    seed: np.uint64
    reference_text: np.ndarray  # uint8 (n,): row of `texts`, read only, like `reference_offsets`
    reference_offsets: np.ndarray  # int64 (rows + 1,): row of `offsets`


class FastPathRequest(NamedTuple):
    """The memory of one request at a time."""

    envelope: EnvelopeArrays
    rewards: np.ndarray  # float64 (1, rows): of one configuration, like the two below
    reasons: np.ndarray  # uint8 (1, rows)
    components: np.ndarray  # float64 (1, 11, rows)
    response_text: np.ndarray  # uint8 (n,): row of `EnvelopeArrays.texts`, read only, like all below
    response_offsets: np.ndarray  # int64 (rows + 1,): row of `EnvelopeArrays.offsets`
    reference_index: np.ndarray  # int64 (rows,): `EnvelopeArrays.chosen`
    reference_rows: np.ndarray  # int64 (rows,): `EnvelopeArrays.reference_rows`
    parsed: References  # `references`
    references: References  # writable
    workspace: Workspace


def new_request(max_bytes: int, rows: int) -> FastPathRequest:
    """Allocate memory for bodies of up to `max_bytes`, with up to `rows` responses and as many references."""
    texts = np.empty((2, 5 * max_bytes + 64), np.uint8)
    offsets = np.zeros((2, rows + 1), np.int64)
    chosen, reference_rows = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    references = allocate_with_slots(5 * max_bytes, rows)
    workspace = allocate_workspace(5 * max_bytes, 2 * 5 * max_bytes)
    envelope = EnvelopeArrays(
        fields=np.zeros((len(FIELDS), 3), np.int64),
        unknown=np.zeros((2, 2), np.int64),
        texts=texts,
        offsets=offsets,
        kinds=np.zeros((2, rows), np.uint8),
        scratch=np.empty(max_bytes + 64, np.uint8),
        chosen=chosen,
        reference_rows=reference_rows,
        slots=empty_slots(),
        seed=workspace.seed,
        reference_text=frozen(texts[REFERENCES], np.uint8),
        reference_offsets=frozen(offsets[REFERENCES], np.int64),
    )
    return FastPathRequest(
        envelope=envelope,
        rewards=np.zeros((1, rows)),
        reasons=np.zeros((1, rows), np.uint8),
        components=np.zeros((1, len(COMPONENTS), rows)),
        response_text=frozen(texts[RESPONSES], np.uint8),
        response_offsets=frozen(offsets[RESPONSES], np.int64),
        reference_index=frozen(chosen, np.int64),
        reference_rows=frozen(reference_rows, np.int64),
        parsed=References(*(frozen(column, column.dtype.type) for column in references)),
        references=references,
        workspace=workspace,
    )


@helper
def locate_references(request, expected, rows, max_steps):
    """Choose the row of each response's reference; returns the number of references that have to be read."""
    unread = expected
    first = np.int64(FIRST_FREE_ROW)
    if expected == 1:
        text, start, length = request.reference_text, request.reference_offsets[0], request.reference_offsets[1]
        first = slot_row(text, start, length, request.seed)
        if holds_reference(request.slots, first, text, start, length, max_steps):
            unread = np.int64(0)
        else:
            invalidate(request.slots, first)
    for k in range(rows):
        request.chosen[k] = k if expected == rows else 0
        request.reference_rows[k] = first + request.chosen[k]
    return unread


@hot_kernel
def read_request(request, body, max_reference_bytes, max_steps):
    """Read the request in `body` (uint8, read only): (number of responses or USE_GENERAL_PATH, unread references).

    request: the arrays of the envelope. Handles valid JSON of references, responses and optionally `include`, with one
    reference or one for each response. `read_missing` has to read the unread references before scoring.
    """
    fields = request.fields
    outcome = read_envelope(
        fields,
        request.unknown,
        request.texts,
        request.offsets,
        request.kinds,
        request.scratch,
        body,
        max_reference_bytes,
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
    return rows, locate_references(request, expected, rows, max_steps)


def read_missing(request: FastPathRequest, unread: int, max_steps: int, tables: np.ndarray) -> bool:
    """Read the `unread` references of the request into their rows; return False if one of them is invalid."""
    envelope = request.envelope
    first = int(envelope.reference_rows[0])
    room = request.references._replace(ranges=request.references.ranges[first : first + unread + 1])
    offsets = envelope.reference_offsets[: unread + 1]
    statuses, bad_lines = request.reasons[0, :unread], np.empty(unread, np.int64)
    text, workspace = envelope.reference_text, request.workspace
    entry(read_references)(statuses, bad_lines, room, text, offsets, max_steps, tables, workspace)
    if statuses.any():
        return False
    if unread == 1:
        fill_slot(envelope.slots, first, text, int(offsets[1]), max_steps)
    return True
